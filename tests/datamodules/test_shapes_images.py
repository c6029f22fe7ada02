"""The painted pictures of the demos' world and the truth about them."""

from random import Random

import numpy as np
import pytest

from attnbench.datamodules.demo.shapes import BACKGROUND, SHAPES, Scene, Thing, draw_scene
from attnbench.datamodules.demo.shapes_images import LABELS, paint, scatter


def test_same_scene_and_seed_give_the_same_picture_and_another_seed_another():
    scene = draw_scene(Random(3), 3)
    first, again, other = (paint(scene, size=(128, 96), seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.image_HW3, again.image_HW3)
    assert not np.array_equal(first.image_HW3, other.image_HW3)
    assert np.array_equal(first.labels_HW, other.labels_HW)


@pytest.mark.parametrize("size", [None, (128, 96), (41, 67), (320, 40)])
def test_labels_boxes_and_image_agree_at_any_size(size):
    scene = scatter(Random(1), 6)
    painted = paint(scene, size=size, seed=0)
    width, height = size or (320, 256)
    assert painted.image_HW3.shape == (height, width, 3)
    assert painted.image_HW3.dtype == painted.labels_HW.dtype == np.uint8
    assert painted.shapes == tuple(thing.shape for thing in scene.things)
    for shape, (x1, y1, x2, y2) in zip(painted.shapes, painted.boxes, strict=True):
        mask = painted.labels_HW[y1:y2, x1:x2] == LABELS.index(shape)
        # Tight: the shape touches all four sides of its box.
        assert mask.any(0)[[0, -1]].all() and mask.any(1)[[0, -1]].all()
    inside = np.zeros((height, width), bool)
    for x1, y1, x2, y2 in painted.boxes:
        inside[y1:y2, x1:x2] = True
    assert not np.isin(painted.labels_HW[~inside], [LABELS.index(shape) for shape in SHAPES]).any()


def test_all_backgrounds_are_where_the_world_has_them():
    labels = paint(Scene(()), size=(64, 48), seed=0).labels_HW
    sides = {"sky": labels[0], "grass": labels[-1], "wall": labels[24], "water": labels[24, ::-1]}
    assert set(sides) == set(BACKGROUND)
    assert {name: LABELS[side[0]] for name, side in sides.items()} == {n: n for n in BACKGROUND}
    assert LABELS[labels[24, 32]] == "ground"


def test_a_hidden_thing_has_no_box_and_a_tiny_canvas_keeps_a_pixel_of_each():
    small = Thing("circle", "red", False, (100, 100, 120, 120))
    cover = Thing("square", "blue", True, (90, 90, 150, 150))
    assert paint(Scene((small, cover)), seed=0).shapes == ("square",)
    alone = paint(Scene((small,)), size=(7, 1), seed=0)
    assert alone.shapes == ("circle",)
    assert alone.boxes == ((2, 0, 3, 1),)
    assert alone.labels_HW[0, 2] == LABELS.index("circle")


def test_colours_survive_light_and_noise_but_no_pixel_repeats_exactly():
    painted = paint(Scene((Thing("square", "red", True, (100, 90, 160, 150)),)), seed=2)
    red = painted.image_HW3[painted.labels_HW == LABELS.index("square")].astype(float)
    assert red[:, 0].mean() > 2 * red[:, 1:].mean()
    assert 4 < red[:, 1].std() < 25


def test_scattered_things_do_not_touch():
    for seed in range(5):
        scene = scatter(Random(seed), 8)
        painted = paint(scene, seed=0)
        assert len(painted.boxes) == len(scene.things) >= 4


def test_impossible_sizes_and_counts_are_refused():
    with pytest.raises(ValueError, match="canvas of 0x5"):
        paint(Scene(()), size=(0, 5), seed=0)
    with pytest.raises(ValueError, match="from 0 to 10"):
        scatter(Random(0), 11)
