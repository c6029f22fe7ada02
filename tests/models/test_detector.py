"""The detector: torchvision's at the start, images and batches of every kind, sane boxes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN, fasterrcnn_resnet50_fpn
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

from attnbench.models.attention import SiteError
from attnbench.models.detector import Detector
from attnbench.models.image_config import DETECTOR_SITES, DetectorConfig

TINY: dict[str, Any] = {
    "resnet": "resnet18",
    "batch_norm": "batch",
    "classes": 3,
    "fpn_channels": 16,
    "box_head_dim": 32,
    "min_size": 48,
    "max_size": 64,
    "rpn_train_proposals": 100,
    "rpn_test_proposals": 50,
}
NOTHING = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.long)}
LOSSES = {"loss_objectness", "loss_rpn_box_reg", "loss_classifier", "loss_box_reg"}


def tiny(**changes: Any) -> Detector:
    torch.manual_seed(0)
    return Detector(DetectorConfig(**{**TINY, **changes}))


def picture(height: int, width: int) -> Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(height))


def one_box(*corners: float, label: int = 1) -> dict[str, Tensor]:
    return {"boxes": torch.tensor([corners]), "labels": torch.tensor([label])}


@torch.no_grad()
@pytest.mark.parametrize("backbone", ["none", "terms(1111)"])
def test_it_finds_what_torchvisions_detector_finds(backbone: str) -> None:
    """With the same weights and gates of zero."""
    torch.manual_seed(0)
    body = resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, norm_layer=nn.BatchNorm2d, trainable_layers=5
    )
    few = {"rpn_pre_nms_top_n_test": 20, "rpn_post_nms_top_n_test": 20}
    theirs = FasterRCNN(body, num_classes=4, min_size=48, max_size=64, **few).eval()
    settings = {"fpn_channels": 256, "box_head_dim": 1024, "rpn_test_proposals": 20}
    ours = tiny(backbone=backbone, **settings).eval()
    loaded = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert loaded.unexpected_keys == []
    assert all("attention" in name for name in loaded.missing_keys)
    seen = [picture(36, 48)]  # 48 x 64 pixels: torchvision guesses the strides by sizes
    for one, expected in zip(ours(seen), theirs(seen), strict=True):
        assert len(one["boxes"]) > 0
        for key in ("boxes", "scores", "labels"):
            torch.testing.assert_close(one[key], expected[key])


@pytest.mark.parametrize("backbone", ["terms(0010)", "terms(1111)+deformable", "dot"])
def test_variants_of_one_seed_start_from_the_same_weights_around_the_attention(
    backbone: str,
) -> None:
    without, other = tiny().state_dict(), tiny(backbone=backbone).state_dict()
    differing = {n for n, x in without.items() if n not in other or not torch.equal(x, other[n])}
    assert differing == set()


def test_the_defaults_are_torchvisions_faster_rcnn() -> None:
    with torch.device("meta"):
        theirs = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=81)
        ours = Detector(DetectorConfig())
    shapes = [
        {n: v.shape for n, v in model.state_dict().items() if "num_batches" not in n}
        for model in (ours, theirs)
    ]
    assert shapes[0] == shapes[1]
    assert ours.roi_heads.detections_per_img == theirs.roi_heads.detections_per_img


@pytest.mark.parametrize("backbone", ["none", "terms(1111)", "terms(0010)+deformable"])
def test_it_learns_from_batches_of_every_kind(backbone: str) -> None:
    """Images of different sizes, one pixel high, and without boxes; every parameter moves."""
    model = tiny(backbone=backbone, gate="one").train()
    images = [picture(40, 60), picture(1, 70), picture(50, 30)]
    targets = [one_box(3, 4, 20, 30), NOTHING, one_box(1, 1, 25, 25, label=3)]
    losses = model(images, targets)
    assert set(losses) == LOSSES
    assert all(loss.isfinite() for loss in losses.values())
    sum(losses.values(), start=torch.zeros(())).backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


def test_a_batch_without_any_box_has_losses_too() -> None:
    losses = tiny().train()([picture(40, 40)], [NOTHING])
    assert all(loss.isfinite() for loss in losses.values())
    assert losses["loss_box_reg"] == 0


def test_the_losses_fall() -> None:
    model = tiny(backbone="dot").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    batch = [picture(48, 64), picture(48, 48)], [one_box(8, 8, 40, 40), one_box(4, 4, 30, 44)]
    history = []
    for _ in range(5):
        loss = sum(model(*batch).values(), start=torch.zeros(()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(float(loss.detach()))
    assert history[-1] < 0.8 * history[0]


@torch.no_grad()
@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (40, 61), (700, 2)])
def test_boxes_lie_in_the_image(size: tuple[int, int]) -> None:
    found = tiny(score_threshold=0.0).eval()([picture(*size)])[0]
    assert found["boxes"].shape == (len(found["scores"]), 4)
    assert (found["boxes"] >= 0).all()
    assert (found["boxes"][:, 2] <= size[1]).all() and (found["boxes"][:, 3] <= size[0]).all()
    assert set(found["labels"].tolist()) <= {1, 2, 3}
    assert (found["scores"].diff() <= 0).all()


@torch.no_grad()
def test_what_is_found_does_not_depend_on_the_images_before() -> None:
    """Padding makes the first one 32 times as high."""
    alone, after = (tiny(score_threshold=0.0).eval() for _ in range(2))
    after([picture(1, 64)])
    for key, expected in alone([picture(48, 64)])[0].items():
        torch.testing.assert_close(after([picture(48, 64)])[0][key], expected, rtol=0, atol=0)


def test_anchors_are_exact_under_mixed_precision() -> None:
    """They are learnt from in training, and in evaluation, which has full precision."""
    model = tiny(anchor_sizes=(33, 65, 129, 257, 513), min_size=32, max_size=2048).eval()
    batch, _ = model.transform([picture(16, 1024)])
    anchors: Any = model.rpn.anchor_generator
    with torch.no_grad():
        full = anchors(batch, list(model.backbone(batch.tensors).values()))
        with torch.autocast("cpu", torch.bfloat16):
            maps = list(model.backbone(batch.tensors).values())
            half = anchors(batch, maps)
    assert maps[0].dtype == torch.bfloat16
    assert torch.equal(half[0], full[0])


@torch.no_grad()
def test_nothing_may_be_found() -> None:
    found = tiny(score_threshold=0.99).eval()([picture(40, 60), picture(30, 30)])
    assert [len(one["boxes"]) for one in found] == [0, 0]
    assert found[0]["boxes"].shape == (0, 4)


@torch.no_grad()
def test_padding_is_attended_to_unless_it_is_masked() -> None:
    images = [picture(64, 64), picture(64, 20)]
    inside = {"backbone": "dot", "gate": "one", "min_size": 64}
    with_padding, without = (tiny(**inside, mask_padding=mask).eval() for mask in (False, True))
    seen = [model.transform(images)[0] for model in (with_padding, without)]
    plain, hidden = (
        model.backbone(batch.tensors, batch.image_sizes if model.config.mask_padding else None)
        for model, batch in zip((with_padding, without), seen, strict=True)
    )
    torch.testing.assert_close(plain["2"][0], hidden["2"][0])  # no padding there
    assert not torch.allclose(plain["2"][1], hidden["2"][1])
    boxes = [model(images)[1]["boxes"] for model in (with_padding, without)]
    assert boxes[0].shape != boxes[1].shape or not torch.allclose(*boxes)


def test_only_late_stages_learn_from_pretrained_weights(tmp_path: Any) -> None:
    path = tmp_path / "resnet18.pth"
    torch.save(tiny().body.state_dict(), path)
    model = tiny(weights=path, trainable_stages=2, backbone="dot", attended_stages=(2, 4))
    still = {n for n, p in model.body.named_parameters() if not p.requires_grad}
    assert {name.split(".")[0] for name in still} == {"conv1", "bn1", "layer1", "layer2"}
    assert not any("attention" in name for name in still)
    learning = {n for n, m in model.train().body.named_modules() if m.training and "bn" in n}
    assert {name.split(".")[0] for name in learning} == {"layer3", "layer4"}
    assert all(p.requires_grad for p in tiny(trainable_stages=2).parameters())


@pytest.mark.parametrize(
    ("target", "words"),
    [(None, "needs targets"), (one_box(5, 5, 5, 9), "no area"), (one_box(9, 5, 4, 9), "no area")],
)
def test_training_says_what_it_lacks(target: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tiny().train()([picture(20, 20)], None if target is None else [target])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"anchor_sizes": (8, 16)}, "for each of the 5 levels"),
        ({"anchor_sizes": (8, 16, 32, 64, 0)}, "one size of a pixel or more"),
        ({"resnet": "vgg16"}, "resnet=vgg16 is unknown"),
        ({"trainable_stages": 6}, "less than or equal to 5"),
        ({"colour": 1}, "colour"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DetectorConfig(**settings)


def test_a_stride_with_dynamic_convolution_is_refused() -> None:
    with pytest.raises(SiteError, match="set both to 1"):
        tiny(backbone="dynamic(kernel=3)", key_stride=2)
    assert DETECTOR_SITES["backbone"].axes == 2
