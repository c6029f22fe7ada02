"""Small detection data in the published layouts, for the tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZES = {"a": (40, 30), "b": (30, 40), "c": (50, 20)}


def write_image(path: Path, size: tuple[int, int], seed: int = 0) -> Path:
    """Write a picture of noise; the ending says in which format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def coco_content(**changes: Any) -> dict[str, Any]:
    """Give three images with five boxes, of categories 2, 7 and 90."""
    images = [
        {"id": 10 * (n + 1), "file_name": f"{name}.png", "width": w, "height": h}
        for n, (name, (w, h)) in enumerate(SIZES.items())
    ]
    boxes = [
        (10, 90, [1.5, 2, 10, 20.25], 0),
        (10, 2, [5, 5, 6, 7], 0),
        (10, 7, [0, 0, 40, 30], 1),
        (20, 7, [3, 4, 20, 30], 0),
    ]
    annotations = [
        {
            "id": 100 + n,
            "image_id": image,
            "category_id": category,
            "bbox": box,
            "iscrowd": crowd,
            "area": 50.5,
            "segmentation": [[1, 2, 3, 4, 5, 6]],
        }
        for n, (image, category, box, crowd) in enumerate(boxes)
    ]
    names = {90: "cat", 2: "dog", 7: "bird"}
    categories = [{"id": ident, "name": name} for ident, name in names.items()]
    return {"images": images, "annotations": annotations, "categories": categories} | changes


def write_coco(root: Path, content: Any = None, splits: tuple[str, ...] = ("train", "val")) -> Path:
    """Write the same content and images for each split, in COCO's own layout."""
    content = coco_content() if content is None else content
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    for number, split in enumerate(splits):
        path = root / "annotations" / f"instances_{split}2017.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        for name, size in SIZES.items():
            write_image(root / f"{split}2017" / f"{name}.png", size, number)
    return root


def voc_xml(objects: str, size: tuple[int, int] = (40, 30), filename: str = "a.png") -> str:
    """Give an annotation."""
    return (
        f"<annotation><filename>{filename}</filename><size><width>{size[0]}</width>"
        f"<height>{size[1]}</height><depth>3</depth></size>{objects}</annotation>"
    )


def voc_object(name: str, box: tuple[object, ...], difficult: int = 0) -> str:
    """Give an object of an annotation."""
    corners = "".join(
        f"<{key}>{value}</{key}>"
        for key, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    return (
        f"<object><name>{name}</name><difficult>{difficult}</difficult>"
        f"<bndbox>{corners}</bndbox></object>"
    )


def write_voc(root: Path, annotation: str | None = None) -> Path:
    """Write three images, one a split; the first one's annotation may be given."""
    for folder in ("Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True)
    for split, (name, size) in zip(("train", "val", "test"), SIZES.items(), strict=True):
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text(f"{name}\n")
        write_image(root / "JPEGImages" / f"{name}.png", size)
        text = voc_xml(voc_object("dog", (1, 1, 10, 20)), size, f"{name}.png")
        if name == "a":
            text = annotation or voc_xml(
                voc_object("cat", (1, 1, 40, 30)) + voc_object("dog", (5, 6, 5, 6), 1)
            )
        (root / "Annotations" / f"{name}.xml").write_text(text)
    return root


def write_yolo(root: Path, labels: str | None = None) -> Path:
    """Write three images, one a split; the first one's labels may be given; the last has none."""
    lines = {"a": "1 0.5 0.5 0.5 0.2\n0 0.25 0.5 0.5 1.0\n", "b": "0 0.5 0.5 1 1\n", "c": None}
    for split, (name, size) in zip(("train", "val", "test"), SIZES.items(), strict=True):
        write_image(root / "images" / split / f"{name}.png", size)
        (root / "labels" / split).mkdir(parents=True)
        text = labels if name == "a" and labels is not None else lines[name]
        if text is not None:
            (root / "labels" / split / f"{name}.txt").write_text(text)
    (root / "data.yaml").write_text("names: {0: cat, 1: dog}\nnc: 2\n")
    return root
