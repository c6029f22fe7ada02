from random import Random

import numpy as np
import pytest

from attnbench.datamodules.caption_config import CaptionDataConfig
from attnbench.datamodules.captions import CaptionData
from attnbench.datamodules.demo.captioning import write_captioning_demo
from attnbench.datamodules.demo.shapes import (
    BACKGROUND,
    OPPOSITE,
    Thing,
    draw_pair,
    draw_scene,
    relation,
)
from attnbench.datamodules.demo.shapes_captions import claims, describe, read_claim
from tests.datamodules.writing import Sentence


@pytest.mark.parametrize("things", [1, 2, 3, 4])
def test_scenes_are_inside_the_canvas_apart_and_clear(things):
    random = Random(things)
    for _ in range(100):
        scene = draw_scene(random, things)
        assert len(scene.things) == things
        assert len({(thing.shape, thing.colour) for thing in scene.things}) == things
        for number, one in enumerate(scene.things):
            x1, y1, x2, y2 = one.box
            assert 0 <= x1 < x2 <= scene.width and 0 <= y1 < y2 <= scene.height
            for other in scene.things[:number]:
                found = relation(one, other)
                assert found and relation(other, one) == OPPOSITE[found]
                a, b = one.box, other.box
                assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


def test_relations_are_as_on_a_screen():
    def at(x, y):
        return Thing("circle", "red", False, (x, y, x + 10, y + 10))

    assert relation(at(0, 50), at(100, 50)) == "left of"
    assert relation(at(50, 0), at(50, 100)) == "above"
    assert relation(at(0, 0), at(100, 100)) is None


def test_the_nearest_edge_says_how_a_thing_of_a_pair_lies_to_the_other():
    """Distances without their sign, in widths and heights of the thing, are enough."""
    said = {"sky": "above", "grass": "below", "wall": "left of", "water": "right of"}
    random = Random(3)
    found = []
    for _ in range(300):
        one, other = draw_pair(random).things
        x1, y1, x2, y2 = one.box
        distance = {
            name: np.log(abs((a + c) / 2 - one.centre[0]) / (x2 - x1) + 1e-3)
            + np.log(abs((b + d) / 2 - one.centre[1]) / (y2 - y1) + 1e-3)
            for name, (a, b, c, d) in BACKGROUND.items()
        }
        total = {
            name: np.hypot((a + c) / 2 - one.centre[0], (b + d) / 2 - one.centre[1])
            for name, (a, b, c, d) in BACKGROUND.items()
        }
        assert said[min(total, key=total.__getitem__)] == relation(one, other)
        found.append(said[min(distance, key=distance.__getitem__)] == relation(one, other))
        assert one.centre != other.centre
    assert np.mean(found) > 0.9


def test_captions_are_true_and_can_be_read_back():
    random = Random(5)
    for _ in range(200):
        scene = draw_scene(random, 3)
        named = {f"{t.colour} {t.shape}": t for t in scene.things}
        texts = describe(scene, random)
        assert len(texts) == 5
        for text in texts:
            claim = read_claim(text)
            assert claim is not None, text
            first, found, second = claim
            assert relation(named[first], named[second]) == found
            assert f"{named[first].size} {first}" in text.lower()
            assert (second, OPPOSITE[found], first) in claims(texts)


def test_claims_of_what_a_model_may_say():
    assert read_claim("a small red circle left of a large blue square") == (
        "red circle",
        "left of",
        "blue square",
    )
    assert read_claim("there is a red star to the right of a blue star") is not None
    assert read_claim("a small red circle") is None and read_claim("") is None


def test_the_demo_is_the_same_each_time_and_kept(tmp_path):
    root = write_captioning_demo(tmp_path / "demo", train=6, val=2, test=3)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert len(before) == 1 + 2 + 2 * 11
    write_captioning_demo(root, train=6, val=2, test=3)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    other = write_captioning_demo(tmp_path / "other", train=6, val=2, test=3, seed=1)
    name = "dataset_demo.json"
    assert (other / name).read_bytes() != (root / name).read_bytes()
    with Sentence("not empty", "new folder"):
        write_captioning_demo(root, train=7, val=2, test=3)


def test_without_a_root_the_demo_is_written_to_a_temporary_folder():
    module = CaptionData(CaptionDataConfig())
    module.setup("fit")
    assert len(module.image_ids("train")) == 800 and module.has_boxes
    assert module.vocabulary.unk is None and 15 < len(module.vocabulary) < 40
    batch = next(iter(module.train_dataloader()))
    assert batch.features_BNF.shape == (10, 6, 64) and batch.size_B2[0].tolist() == [320, 256]


def regress(inputs, targets):
    """Fit linearly on one half and give the share of variance explained on the other."""
    half = len(inputs) // 2
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    weights = np.linalg.lstsq(inputs[:half], targets[:half], rcond=None)[0]
    error = ((inputs[half:] @ weights - targets[half:]) ** 2).mean()
    return 1 - error / targets[half:].var()


def test_features_tell_the_shape_but_neither_place_nor_size(tmp_path):
    root = write_captioning_demo(tmp_path / "demo", train=1500, val=1, test=1)
    module = CaptionData(CaptionDataConfig(root=root, batch_size=1500))
    batch = next(iter(module.predict_dataloader("train")))
    assert batch.boxes_BN4 is not None
    boxes = batch.boxes_BN4.numpy()
    edges = {tuple(map(float, box)) for box in BACKGROUND.values()}
    background = np.array([[tuple(box) in edges for box in each] for each in boxes.tolist()])
    assert (background.sum(1) == 4).all()
    assert set(np.argmin(background, 1)) == set(range(5))  # things are at no place of their own
    features = batch.features_BNF.numpy()[~background]
    corners = boxes[~background]
    side, x, y = corners[:, 2] - corners[:, 0], corners[:, 0], corners[:, 1]
    for target in (side, x, y, np.arange(len(x)) % 2):
        assert regress(features, target.astype(float)) < 0.05
    circles = np.array(
        [
            any("circle" in claim[0] for claim in claims(texts))
            for texts in module.references("train")
        ]
    )
    there = batch.features_BNF.numpy().sum(1)
    assert regress(there, circles.astype(float)) > 0.6
