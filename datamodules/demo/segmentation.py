"""Writer of the segmentation demo: painted scenes as a folder in the layout of Cityscapes.

The world's parts stand for classes of Cityscapes with its own labelIds, so that one reader serves
both: sky, terrain (the grass), wall and road (the strip on the right) at the edges, sidewalk (the
ground) in the middle, and on it persons (circles), traffic signs (triangles), buildings (stars),
and cars or trucks (squares). A dark line at the lower edge is the vehicle that looks (labelId 1),
which is void.

**Cars and trucks look alike.** All squares of an image are trucks where its road is wet, which is
to be seen from the road's lighter colour alone, and cars where it is dry. Squares lie in the left
half and the road is the right edge, so that what tells them apart is at least 40 % of the image's
width away: a pixel that sees its own surroundings only can do no better than guess, one that can
attend to the whole image can know. Attention isn't the only way, though: conv5 of a ResNet-18 with
output stride 32 sees the whole image too and learns to tell them apart in some 100 updates. Crops
that cut the road off make the truth unknowable: train on whole images (``crop_height=96
crop_width=128 scale_min=1 scale_max=1``); mirroring does no harm.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from .folder import write_folder
from .shapes import WIDTH, Scene
from .shapes_images import LABELS, PAINT, paint, scatter

SIZE = (128, 96)
"""Width and height in pixels."""

LABEL_IDS: dict[str, int] = {
    "ground": 8,
    "sky": 23,
    "grass": 22,
    "wall": 12,
    "water": 7,
    "circle": 24,
    "square": 26,
    "triangle": 20,
    "star": 11,
}
"""labelId of what a pixel shows; squares are trucks (27) beside a wet road."""

_TRUCK, _EGO_VEHICLE = 27, 1
_WET = (190, 205, 230)
_SIDES = (52, 96)
_BONNET = 2
_INSTEAD = ("triangle", "star")
_CITIES = {"train": ("circleton", "squareham"), "val": ("trianglia",), "test": ("starborough",)}


def write_segmentation_demo(
    root: Path, *, seed: int = 0, train: int = 128, val: int = 24, test: int = 48
) -> Path:
    """Write ``leftImg8bit`` and ``gtFine`` with labelIds in one step.

    The labels of ``test`` are real ones, unlike Cityscapes'. The same arguments give the same
    pixels.

    Args:
        root: the folder; made if it is missing. Running again with the same arguments changes
            nothing.
        seed: seed of the scenes.
        train: number of training images.
        val: number of validation images.
        test: number of test images.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, is the current one, or can't be read or written.
    """
    return write_folder(Path(root), _contents(seed, {"train": train, "val": val, "test": test}))


def _contents(seed: int, sizes: dict[str, int]) -> dict[str, bytes]:
    random = Random(seed)
    contents: dict[str, bytes] = {}
    for split, size in sizes.items():
        for number in range(size):
            city = _CITIES[split][number % len(_CITIES[split])]
            image_HW3, label_ids_HW = draw_street(random)
            place = f"{split}/{city}/{city}_{number:06}_000019"
            contents[f"leftImg8bit/{place}_leftImg8bit.png"] = _png(image_HW3)
            contents[f"gtFine/{place}_gtFine_labelIds.png"] = _png(label_ids_HW)
    return contents


def draw_street(random: Random) -> tuple[np.ndarray, np.ndarray]:
    """Draw an image, uint8 (H, W, 3), and its labelIds, uint8 (H, W)."""
    wet = random.random() < 0.5
    looks = {**PAINT, "water": _WET if wet else PAINT["water"]}
    scene = _with_squares(scatter(random, random.randint(4, 6), sides=_SIDES))
    painted = paint(scene, size=SIZE, seed=random.getrandbits(32), looks=looks)
    ids = [LABEL_IDS[name] for name in LABELS]
    if wet:
        ids[LABELS.index("square")] = _TRUCK
    image_HW3 = painted.image_HW3.copy()
    label_ids_HW = np.array(ids, np.uint8)[painted.labels_HW]
    image_HW3[-_BONNET:] //= 4
    label_ids_HW[-_BONNET:] = _EGO_VEHICLE
    return image_HW3, label_ids_HW


def _with_squares(scene: Scene) -> Scene:
    """Make squares of the things in the left half, and only of those, in their own colours."""
    things = []
    for number, thing in enumerate(scene.things):
        shape = thing.shape
        if thing.box[2] <= WIDTH / 2:
            shape = "square"
        elif shape == "square":
            shape = _INSTEAD[number % len(_INSTEAD)]
        things.append(replace(thing, shape=shape))
    return Scene(tuple(things))


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG", compress_level=1)
    return stream.getvalue()
