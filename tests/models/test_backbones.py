"""Attended ResNets: torchvision's network at the start, and where the modules stand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import Tensor, nn
from torchvision.models._utils import IntermediateLayerGetter

from attnbench.models.attention import SiteError, SpecError
from attnbench.models.attention.deformable_grid import DeformableConv2d
from attnbench.models.backbones import AttendedBlock, AttendedResNet, WeightsError
from attnbench.models.image_config import RESNETS, BackboneSettings

IMAGE_SIZE = (45, 61)


@pytest.fixture(scope="module")
def original() -> nn.Module:
    """torchvision's ResNet-18 with running statistics of its own."""
    torch.manual_seed(0)
    network = torchvision.models.resnet18(num_classes=7)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return network.eval()


@pytest.fixture(scope="module")
def weights(original: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "resnet18.pth"
    torch.save(original.state_dict(), path)
    return path


def image(items: int = 1, size: tuple[int, int] = IMAGE_SIZE) -> Tensor:
    return torch.randn(items, 3, *size, generator=torch.Generator().manual_seed(2))


def on_meta(*args: Any, **options: Any) -> AttendedResNet:
    with torch.device("meta"):
        return AttendedResNet(*args, **options)


@torch.no_grad()
@pytest.mark.parametrize(
    ("spec", "norm"),
    [("none", "sync"), ("terms(1111)", "frozen"), ("dynamic(kernel=3)+deformable", "batch")],
)
def test_with_the_same_weights_it_starts_as_torchvisions_network(
    original: nn.Module, weights: Path, spec: str, norm: Any
) -> None:
    network = AttendedResNet("resnet18", spec, norm=norm, weights=weights).eval()
    layers = {f"layer{number}": f"c{number + 1}" for number in range(1, 5)}
    expected = IntermediateLayerGetter(original, layers)(image())
    maps = network(image())
    assert list(maps) == ["c2", "c3", "c4", "c5"]
    for name, value in expected.items():
        assert value.shape[1] == network.channels[name]
        torch.testing.assert_close(maps[name], value, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_bottleneck_network_starts_as_torchvisions_too() -> None:
    torch.manual_seed(0)
    original = torchvision.models.resnet50(num_classes=1).eval()
    network = AttendedResNet("resnet50", "terms(0010)").eval()
    state = {n: v for n, v in original.state_dict().items() if not n.startswith("fc.")}
    assert network.load_state_dict(state, strict=False).unexpected_keys == []
    expected = IntermediateLayerGetter(original, {"layer4": "c5"})(image(size=(33, 47)))["c5"]
    torch.testing.assert_close(network(image(size=(33, 47)))["c5"], expected)


@pytest.mark.parametrize(
    ("name", "conv4", "conv5"),
    [("resnet18", 2, 2), ("resnet50", 6, 3), ("resnet101", 23, 3)],
)
def test_attention_stands_in_every_block_of_conv4_and_conv5(
    name: str, conv4: int, conv5: int
) -> None:
    network = on_meta(name, "dot+deformable")
    assert [m.attention.dim for m in network.attended] == [256] * conv4 + [512] * conv5
    assert [m.out_channels for m in network.deformable] == [256] * conv4 + [512] * conv5
    found = {n.split(".")[0] for n, _ in network.named_parameters() if "attention" in n}
    assert found == {"layer3", "layer4"}


def test_the_paper_has_six_and_three_modules_in_resnet_50() -> None:
    network = on_meta("resnet50", "terms(1111)")
    places = [name for name, _ in network.named_modules() if name.endswith(".attention.attention")]
    assert places == [
        *(f"layer3.{block}.attention.attention" for block in range(6)),
        *(f"layer4.{block}.attention.attention" for block in range(3)),
    ]


def test_the_names_are_those_of_torchvision() -> None:
    known = torchvision.models.list_models(torchvision.models)
    builders = {name: torchvision.models.get_model_builder(name).__module__ for name in known}
    assert set(RESNETS) == {n for n, module in builders.items() if module.endswith(".resnet")}


@pytest.mark.parametrize("name", ["resnet34", "resnext50_32x4d", "wide_resnet50_2"])
def test_any_resnet_of_torchvision_will_do(name: str) -> None:
    assert name in RESNETS
    network = on_meta(name, "dot", stages=(2, 3, 4, 5))
    with torch.device("meta"):
        expected = torchvision.models.get_model(name).state_dict()
    own = network.state_dict()
    for key, value in expected.items():
        assert key.startswith("fc.") or own[key].shape == value.shape
    blocks = [module for module in network.modules() if isinstance(module, AttendedBlock)]
    widths = [block.spatial.out_channels for block in blocks]
    assert [module.attention.dim for module in network.attended] == widths


def test_grouped_convolutions_do_not_become_deformable() -> None:
    with pytest.raises(SpecError, match="resnext50_32x4d has grouped"):
        on_meta("resnext50_32x4d", "deformable")


def test_the_convolution_before_the_site_becomes_deformable() -> None:
    for name, place in (("resnet18", "conv1"), ("resnet50", "conv2")):
        network = on_meta(name, "terms(0010)+deformable", output_stride=16)
        first, second = (getattr(network.layer4[i], place) for i in (0, 1))
        assert isinstance(first, DeformableConv2d) and isinstance(second, DeformableConv2d)
        assert (first.stride, first.dilation, second.dilation) == (1, 1, 2)
        assert not any(isinstance(m, DeformableConv2d) for m in network.layer2.modules())
    assert len(on_meta("resnet50", "deformable").attended) == 0


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "output_stride"), [("resnet18", 8), ("resnet18", 16), ("resnet50", 8)]
)
def test_a_dilated_map_holds_the_strided_one(name: str, output_stride: int) -> None:
    torch.manual_seed(0)
    strided = AttendedResNet(name).double().eval()
    dilated = AttendedResNet(name, output_stride=output_stride).double().eval()
    dilated.load_state_dict(strided.state_dict())
    expected, maps = strided(image().double()), dilated(image().double())
    step = 32 // output_stride
    assert maps["c5"].shape[-2:] == tuple(-(-side // output_stride) for side in IMAGE_SIZE)
    torch.testing.assert_close(maps["c5"][..., ::step, ::step], expected["c5"])


@torch.no_grad()
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_deep_stem_is_three_small_convolutions(name: str) -> None:
    network = AttendedResNet(name, deep_stem=True).eval()
    stem = [network.conv1, network.conv2, network.conv3]
    assert [(c.kernel_size, c.stride, c.out_channels) for c in stem] == [
        ((3, 3), (2, 2), 64),
        ((3, 3), (1, 1), 64),
        ((3, 3), (1, 1), 128),
    ]
    maps = network(image())
    assert maps["c2"].shape == (1, network.channels["c2"], 12, 16)
    assert maps["c5"].isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("size", [(1, 1), (1, 70), (33, 2)])
def test_images_of_any_size_give_maps(size: tuple[int, int]) -> None:
    maps = AttendedResNet("resnet18", "terms(1111)+deformable").eval()(image(size=size))
    sizes = [tuple(-(-side // stride) for side in size) for stride in (4, 8, 16, 32)]
    assert [tuple(x.shape[-2:]) for x in maps.values()] == sizes


@pytest.mark.parametrize("spec", ["terms(1111)", "terms(0010)+deformable"])
def test_gradients_reach_every_parameter(spec: str) -> None:
    torch.manual_seed(0)
    network = AttendedResNet("resnet18", spec, gate="one")
    network(image(2))["c5"].square().sum().backward()
    still = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@torch.no_grad()
def test_hiding_padding_reaches_every_module() -> None:
    torch.manual_seed(0)
    network = AttendedResNet("resnet18", "dot", gate="one").eval()
    pixels = image(2, (64, 96))
    plain, whole, part = (
        network(pixels, sizes) for sizes in (None, [(64, 96)] * 2, [(64, 96), (32, 40)])
    )
    torch.testing.assert_close(plain["c5"], whole["c5"])
    torch.testing.assert_close(part["c5"][0], plain["c5"][0])
    assert not torch.allclose(part["c5"][1], plain["c5"][1])


@pytest.mark.parametrize("parts", [0, 2, 5])
def test_frozen_parts_stay_as_they_are(weights: Path, parts: int) -> None:
    network = AttendedResNet("resnet18", "terms(0010)", weights=weights, gate="one")
    network.freeze(parts)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    learns = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learns, lr=0.1)
    network.train()
    network(image(2))["c5"].square().mean().backward()
    optimizer.step()
    after = network.state_dict()
    frozen = [("conv1.", "bn1."), *((f"layer{stage}.",) for stage in range(1, 5))][:parts]
    prefixes = tuple(prefix for group in frozen for prefix in group)
    for name, value in before.items():
        stays = name.startswith(prefixes) and "attention" not in name if prefixes else False
        assert torch.equal(after[name], value) == stays, name


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors", "wrapped"])
def test_weights_are_read_in_every_form(original: nn.Module, tmp_path: Path, form: str) -> None:
    state = original.state_dict()
    path = tmp_path / ("weights.safetensors" if form == "safetensors" else "weights.pth")
    if form == "safetensors":
        save_file(state, path)
    elif form == "wrapped":
        names = {f"module.{name}": value for name, value in state.items()}
        torch.save({"epoch": 3, "state_dict": names}, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    network = AttendedResNet("resnet18", weights=path)
    assert torch.equal(
        network.state_dict()["layer4.1.conv2.weight"], state["layer4.1.conv2.weight"]
    )
    assert torch.equal(network.state_dict()["bn1.running_var"], state["bn1.running_var"])


def _without(state: dict[str, Tensor]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if "layer1.0" not in name}


BROKEN: dict[str, tuple[Callable[[dict[str, Tensor]], Any], str]] = {
    "missing": (_without, r"lacks layer1\.0\.bn1\.bias, .* and 7 more"),
    "unknown": (lambda state: {**state, "stem.weight": torch.ones(1)}, r"unknown stem\.weight"),
    "shape": (lambda state: {**state, "conv1.weight": torch.ones(1)}, r"misshapen conv1\.weight"),
    "other things": (lambda state: {**state, "epoch": 3}, "more than tensors"),
    "numbers as names": (lambda state: {**state, 3: torch.ones(1)}, "more than tensors by name"),
    "NaN": (lambda state: {**state, "bn1.bias": torch.full((64,), torch.nan)}, "NaN.*bn1.bias"),
    "whole": (lambda state: {n: v.long() for n, v in state.items()}, "whole.*and 97 more"),
    "sparse": (lambda state: {**state, "bn1.bias": torch.ones(64).to_sparse()}, "sparse.*bn1"),
    "no state": (lambda state: [1, 2], "holds no state dict"),
}


@pytest.mark.filterwarnings("ignore:Validating sparse tensor")
@pytest.mark.parametrize("case", BROKEN)
def test_weights_that_do_not_fit_are_one_sentence(
    original: nn.Module, tmp_path: Path, case: str
) -> None:
    change, words = BROKEN[case]
    path = tmp_path / "weights.pth"
    torch.save(change(original.state_dict()), path)
    with pytest.raises(WeightsError, match=words) as caught:
        AttendedResNet("resnet18", weights=path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nothing.pth", "damaged.pth", "damaged.safetensors"])
def test_files_that_are_no_weights_are_one_sentence(tmp_path: Path, name: str) -> None:
    if name.startswith("damaged"):
        (tmp_path / name).write_bytes(b"not weights")
    with pytest.raises(WeightsError, match=name) as caught:
        AttendedResNet("resnet18", weights=tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "resnet19"}, "resnet19"),
        ({"stages": (1,)}, "stages are among"),
        ({"output_stride": 4}, "output_stride is 8, 16 or 32"),
        ({"attention": "dynamic", "key_stride": 2}, "set both to 1"),
        ({"attention": "dot", "heads": 7}, "7 heads"),
    ],
)
def test_what_can_not_be_built_says_why(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, SiteError), match=words):
        on_meta(**{"name": "resnet18", **options})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"resnet": "vgg16"}, "resnet=vgg16 is unknown"),
        ({"attended_stages": (6,)}, "stages are among 2, 3, 4 and 5"),
        ({"attended_stages": ()}, "at least 1"),
        ({"gate": "two"}, "zero"),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BackboneSettings(**setting)
