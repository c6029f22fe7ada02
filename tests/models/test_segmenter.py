"""The segmenter: logits of the input's size, where attention stands, both decoders."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench.models.attention import SiteError
from attnbench.models.attention.deformable_grid import DeformableConv2d
from attnbench.models.image_config import SEGMENTER_SITES, SegmenterConfig
from attnbench.models.layers.spatial import SpatialAttention
from attnbench.models.segmenter import Segmenter

TINY: dict[str, Any] = {"resnet": "resnet18", "classes": 5, "decoder_channels": 16}
DECODERS = ["ccnet", "fpn"]


def tiny(**changes: Any) -> Segmenter:
    torch.manual_seed(0)
    return Segmenter(SegmenterConfig(**{**TINY, **changes}))


def on_meta(**changes: Any) -> Segmenter:
    with torch.device("meta"):
        return Segmenter(SegmenterConfig(**changes))


def image(height: int = 45, width: int = 61, items: int = 2) -> Tensor:
    return torch.randn(items, 3, height, width, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize("decoder", DECODERS)
def test_logits_have_the_size_of_the_image(decoder: str) -> None:
    model = tiny(decoder=decoder, backbone="terms(1111)", head="terms(1111)")
    for size in ((45, 61), (1, 70), (33, 16)):
        logits = model.train()(image(*size))
        assert {name: tuple(x.shape) for name, x in logits.items()} == {
            "out": (2, 5, *size),
            "aux": (2, 5, *size),
        }
        assert list(model.eval()(image(*size))) == ["out"]
    assert list(tiny(decoder=decoder, auxiliary=False).train()(image())) == ["out"]


@pytest.mark.parametrize("decoder", DECODERS)
def test_variants_of_one_seed_start_from_the_same_weights_around_the_attention(
    decoder: str,
) -> None:
    without = tiny(decoder=decoder).state_dict()
    other = tiny(decoder=decoder, backbone="terms(0010)+deformable", head="dot").state_dict()
    differing = {n for n, x in without.items() if n not in other or not torch.equal(x, other[n])}
    assert differing == set()


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("head", ["terms(1111)", "dynamic(kernel=3)"])
def test_gradients_reach_every_parameter(decoder: str, head: str) -> None:
    model = tiny(decoder=decoder, backbone="terms(0010)+deformable", head=head, gate="one").train()
    logits = model(image())
    sum((x.square().mean() for x in logits.values()), start=torch.zeros(())).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@torch.no_grad()
@pytest.mark.parametrize("bits", ["0000", "0010", "0101", "1111"])
def test_terms_stand_in_backbone_and_head(bits: str) -> None:
    spec = f"terms({bits})"
    model = tiny(backbone=spec, head=spec, key_stride=2, gate="one").eval()
    assert model(image())["out"].isfinite().all()
    modules = [m for m in model.modules() if isinstance(m, SpatialAttention)]
    assert len(modules) == (0 if bits == "0000" else 5)


@pytest.mark.parametrize("decoder", DECODERS)
def test_resnet_50_has_nine_modules_and_one_after_the_backbone(decoder: Any) -> None:
    model = on_meta(backbone="terms(1111)", head="terms(1111)", decoder=decoder)
    modules = [m for m in model.modules() if isinstance(m, SpatialAttention)]
    assert [m.attention.dim for m in modules] == [256] * 6 + [512] * 3 + [512]
    without = on_meta(decoder=decoder)
    assert not any(isinstance(m, SpatialAttention) for m in without.modules())


@pytest.mark.parametrize("decoder", DECODERS)
def test_it_starts_as_the_model_without_attention(decoder: str) -> None:
    plain = tiny(decoder=decoder).eval()
    attended = tiny(decoder=decoder, backbone="terms(1111)", head="dot").eval()
    assert attended.load_state_dict(plain.state_dict(), strict=False).unexpected_keys == []
    torch.testing.assert_close(attended(image())["out"], plain(image())["out"])


def test_corners_of_the_map_are_corners_of_the_image() -> None:
    model = tiny(output_stride=16).eval()
    few = model.decoder(model.body(image()), model.body.grids)
    logits = model(image())["out"]
    for row in (0, -1):
        for column in (0, -1):
            torch.testing.assert_close(logits[:, :, row, column], few[:, :, row, column])


@pytest.mark.parametrize(("stride", "side"), [(8, 8), (16, 4), (32, 2)])
def test_the_output_stride_sets_the_size_of_the_map(stride: Any, side: int) -> None:
    model = tiny(output_stride=stride).eval()
    assert model.body(image(64, 64))["c5"].shape[-1] == side


def test_deformable_in_the_head_is_its_first_convolution() -> None:
    model = on_meta(head="terms(0010)+deformable")
    found = [name for name, m in model.named_modules() if isinstance(m, DeformableConv2d)]
    assert found == ["decoder.reduce.0"]
    assert tiny(head="deformable").eval()(image())["out"].isfinite().all()
    with pytest.raises(SiteError, match="decoder=ccnet"):
        on_meta(head="deformable", decoder="fpn")


def test_norms_are_what_they_are_told() -> None:
    synchronised = on_meta(batch_norm="sync")
    norms = [m for m in synchronised.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert norms and all(isinstance(m, nn.SyncBatchNorm) for m in norms)
    frozen = on_meta(batch_norm="frozen")
    left = [n for n, m in frozen.named_modules() if isinstance(m, nn.BatchNorm2d)]
    assert left and not any(name.startswith("body.") for name in left)


def test_a_deep_stem_can_be_asked_for() -> None:
    assert tiny(deep_stem=True).eval()(image())["out"].isfinite().all()


def test_the_losses_fall() -> None:
    model = tiny(decoder="fpn", output_stride=32, backbone="dot", head="dot").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    labels_BHW = torch.zeros(2, 32, 48, dtype=torch.long)
    labels_BHW[:, :16, 16:] = 1
    history = []
    for _ in range(6):
        logits = model(image(32, 48))
        losses = [nn.functional.cross_entropy(x, labels_BHW) for x in logits.values()]
        loss = torch.stack(losses).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(float(loss.detach()))
    assert history[-1] < 0.8 * history[0]


def test_strides_that_a_spec_can_not_take_are_refused() -> None:
    with pytest.raises(SiteError, match="set both to 1"):
        on_meta(head="dynamic", key_stride=2)
    assert set(SEGMENTER_SITES) == {"backbone", "head"}
    with pytest.raises(ValueError, match="4"):
        SegmenterConfig.model_validate({"output_stride": 4})
