import numpy as np
import pytest
import torch
from PIL import Image

from attnbench.datamodules.caption_records import CaptionImage
from attnbench.datamodules.features.backbones import load_backbone
from attnbench.datamodules.features.extract import cell_boxes
from attnbench.datamodules.features.pack import extract_features
from tests.datamodules.writing import Sentence

SIZES = {"a": (40, 30), "b": (30, 50), "c": (64, 64)}
IMAGES = [CaptionImage(name, "train", f"dir/{name}.png", [["a"]], ["a"]) for name in SIZES]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root" / "images"
    folder.mkdir(parents=True)
    for number, (name, size) in enumerate(SIZES.items()):
        pixels = np.random.default_rng(number).integers(0, 255, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder.parent


def test_cells_cover_the_image_row_by_row():
    boxes = cell_boxes(2, 3, (30, 40))
    assert boxes.tolist() == [
        [0, 0, 10, 20],
        [10, 0, 20, 20],
        [20, 0, 30, 20],
        [0, 20, 10, 40],
        [10, 20, 20, 40],
        [20, 20, 30, 40],
    ]


def test_the_packaged_weights_give_a_grid_of_49_cells(root, tmp_path):
    done = []
    store = extract_features(
        IMAGES, root, tmp_path / "store", backbone="efficientnet-lite0", progress=done.append
    )
    assert (store.ids, store.dim, store.header.regions) == (["a", "b", "c"], 1280, (49, 49))
    assert store.sizes.tolist() == [list(size) for size in SIZES.values()]
    assert "efficientnet-lite0" in store.header.layout and done == [3]
    boxes = store.of(1)[1]
    assert boxes is not None
    np.testing.assert_allclose(boxes[-1], [30 * 6 / 7, 50 * 6 / 7, 30, 50], rtol=1e-5)
    assert np.abs(store.of(0)[0] - store.of(1)[0]).max() > 0.1
    again = extract_features(IMAGES, root, tmp_path / "again", backbone="efficientnet-lite0")
    np.testing.assert_allclose(again.of(2)[0], store.of(2)[0], rtol=1e-4, atol=1e-4)


def test_a_torchvision_network_with_weights_from_a_file(root, tmp_path):
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval()
    weights = tmp_path / "resnet18.pth"
    torch.save(model.state_dict(), weights)
    backbone = load_backbone("torchvision:resnet18", weights)
    pixels = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        pooled = backbone.features(pixels).mean((2, 3))
        torch.testing.assert_close(model.fc(pooled), model(pixels))  # the map before its pooling
    assert len(backbone.sha256) == 64


@pytest.mark.parametrize("name", ["resnet10t", "test_vit", "test_convnext"])
def test_a_timm_network_gives_maps_whatever_its_kind(tmp_path, name):
    import timm
    from safetensors.torch import save_file

    model = timm.create_model(name, pretrained=False)
    weights = tmp_path / "model.safetensors"
    save_file(model.state_dict(), weights)
    backbone = load_backbone(f"timm:{name}", weights)
    pixels = torch.randn(2, 3, backbone.size, backbone.size)
    with torch.inference_mode():
        maps = backbone.features(pixels)
    assert maps.ndim == 4 and maps.shape[:2] == (2, model.num_features)
    assert maps.shape[2] == maps.shape[3] > 1


def test_what_cannot_be_extracted(root, tmp_path):
    def extract(backbone, weights=None, images=IMAGES, root=root):
        extract_features(images, root, tmp_path / "store", backbone=backbone, weights=weights)

    with Sentence("'resnet50'", "timm:NAME"):
        extract("resnet50")
    with Sentence("timm:resnet50", "weights=FILE"):
        extract("timm:resnet50")
    bad = tmp_path / "bad.pth"
    torch.save({"x": torch.zeros(1)}, bad)
    with Sentence(str(bad), "no weights that fit torchvision:resnet18"):
        extract("torchvision:resnet18", bad)
    with Sentence("timm has no model 'resnet18x'"):
        extract("timm:resnet18x", bad)
    with Sentence("nothere.pth", "can't be read"):
        extract("torchvision:resnet18", tmp_path / "nothere.pth")
    stranger = [CaptionImage("z", "train", "z.png", [["a"]], ["a"])]
    with Sentence("none of the 1 images", "z.png"):
        extract("efficientnet-lite0", images=stranger)
    (root / "images" / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    with Sentence("b.png", "no image that can be read"):
        extract("efficientnet-lite0")
    assert not (tmp_path / "store").exists()
