"""Where one cell of a feature map looks: attention weights, kernels and sampling places.

The run's own modules are asked. A cell of a map of stride s is centred at pixel s i of what the
network reads, as every strided convolution of a ResNet has it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..models.attention import Grid2D, split_convolution
from ..models.attention.deformable_grid import DeformableConv2d
from ..models.attention.dynamic_grid import DynamicGrid
from ..models.attention.terms import TermsAttention
from ..models.backbones import AttendedBlock, AttendedResNet
from ..models.layers.spatial import SpatialAttention
from .attention_maps import find_item
from .cell_parts import Call, Samples, Weights, calls_of, kernel_of, samples_of, weights_of
from .errors import ConfigError
from .image_pictures import batch_at

if TYPE_CHECKING:
    from ..datamodules.detection import DetectionData
    from ..datamodules.segmentation import SegmentationData
    from .detection import DetectionTask
    from .segmentation import SegmentationTask

STRIDES = {2: 4, 3: 8, 4: 16, 5: 32}
"""Pixels a cell of the maps of conv2 to conv5, where no stride became a dilation."""


@dataclass(frozen=True)
class CellMap:
    """A feature map over the image that it was computed from.

    Attributes:
        rows, columns: its size in cells.
        stride: pixels of the network's input a cell.
        scale: rows and columns of the network's input a row and column of the stored image.
    """

    rows: int
    columns: int
    stride: int
    scale: tuple[float, float] = (1.0, 1.0)

    def pixel(self, row: float, column: float) -> tuple[float, float]:
        """Where a place of the map stands in the stored image: row and column of pixels.

        A whole number is the centre of a cell, or of a pixel.
        """
        y, x = (
            (place * self.stride + 0.5) / scale - 0.5
            for place, scale in zip((row, column), self.scale, strict=True)
        )
        return y, x

    def cell(self, y: float, x: float) -> tuple[int, int]:
        """The cell that stands nearest to a pixel of the stored image."""
        row, column = (
            round(((place + 0.5) * scale - 0.5) / self.stride)
            for place, scale in zip((y, x), self.scale, strict=True)
        )
        return min(max(row, 0), self.rows - 1), min(max(column, 0), self.columns - 1)


@dataclass(frozen=True)
class CellChoice:
    """A cell of a model's feature maps.

    Attributes:
        cell: row and column in the map, from 0.
        pixel: row and column in the stored image, for the nearest cell instead.
        layer: name of the block, or its number from 1; None is the last.
    """

    cell: tuple[int, int] = (0, 0)
    pixel: tuple[int, int] | None = None
    layer: str | None = None


@dataclass(frozen=True)
class CellView:
    """Where a cell looks, in the cells of its map.

    Attributes:
        image_HW3: the stored image, uint8.
        layer: name of the block.
        map: the map that has the cell.
        cell: its row and column.
        parts: what of it looks elsewhere, in the order of computation.
        notes: a sentence for each thing that a reader should know.
    """

    image_HW3: np.ndarray
    layer: str
    map: CellMap
    cell: tuple[int, int]
    parts: tuple[Weights | Samples, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A block that looks beyond its neighbourhood.

    Attributes:
        spec: attention spec of its site.
        attention, convolution: what is in it of the two.
        stride: pixels of the network's input a cell of its map.
    """

    spec: str
    attention: SpatialAttention | None
    convolution: DeformableConv2d | None
    stride: int


def places_of(body: AttendedResNet, spec: str) -> dict[str, Place]:
    """The attended and deformable blocks of a backbone by name, such as ``layer3.1``."""
    found = {}
    for stage, stride in STRIDES.items():
        for number, block in enumerate(body.stage(stage)):
            assert isinstance(block, AttendedBlock)
            convolution = getattr(block, block.spatial_name)
            place = Place(
                spec,
                block.attention,
                convolution if isinstance(convolution, DeformableConv2d) else None,
                min(stride, body.output_stride),
            )
            if place.attention or place.convolution:
                found[f"layer{stage - 1}.{number}"] = place
    return found


def choose_place(places: Mapping[str, Place], layer: str | None, specs: str) -> str:
    """The name of a place, given by name or number from 1 on; the last without one.

    Raises:
        ConfigError: there is no such place, or none at all.
    """
    if not places:
        raise ConfigError(
            f"no block of this run looks beyond its neighbourhood ({specs}), so there is nothing "
            "to draw of a cell: leave out --cell and --pixel"
        )
    names = list(places)
    if layer is None or layer in places:
        return layer or names[-1]
    if layer.isdecimal() and 1 <= int(layer) <= len(names):
        return names[int(layer) - 1]
    near = difflib.get_close_matches(layer, names, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}? " if near and not layer.isdecimal() else ""
    raise ConfigError(
        f"there is no layer {layer!r} that looks beyond its neighbourhood; {hint}"
        f"there are {', '.join(names)}"
    )


def view_of(
    forward: Callable[[], Any],
    name: str,
    place: Place,
    image_HW3: np.ndarray,
    scale: tuple[float, float],
    choice: CellChoice,
) -> CellView:
    """Where a cell of a place looks.

    Args:
        forward: runs the model over the image, in evaluation mode.
        name, place: the block.
        image_HW3: the stored image.
        scale: as of ``CellMap``.
        choice: the cell.

    Raises:
        ConfigError: the cell or the pixel is outside.
    """
    modules: list[nn.Module] = [] if place.convolution is None else [place.convolution]
    readers = [] if place.attention is None else _readers(place.attention)
    with calls_of([*modules, *readers]) as calls, torch.no_grad():
        forward()
    rows, columns = _size(calls)
    over = CellMap(rows, columns, place.stride, scale)
    cell = choice.cell
    if choice.pixel is not None:
        _check("pixel", choice.pixel, image_HW3.shape[:2], "the image")
        cell = over.cell(*choice.pixel)
    _check(
        "cell",
        cell,
        (rows, columns),
        f"the map of {name}{', the last layer' * (choice.layer is None)}",
    )
    notes = []
    stride = 1 if place.attention is None else place.attention.query_stride
    if any(number % stride for number in cell):
        cell = (cell[0] // stride * stride, cell[1] // stride * stride)
        every = "second" if stride == 2 else f"{stride}th"
        notes.append(
            f"with query_stride={stride} attention is computed at every {every} row and column "
            f"only: drawn is the cell {cell[0]},{cell[1]}"
        )
    parts: list[Weights | Samples] = []
    for module, call in calls.items():
        if isinstance(module, DeformableConv2d):
            parts.append(samples_of(module, call, cell))
        elif isinstance(module, DynamicGrid):
            parts.append(kernel_of(module, call, cell, _said(place)))
        elif isinstance(module, TermsAttention):
            parts.append(weights_of(module, call, cell, _said(place)))
    return CellView(image_HW3, name, over, cell, tuple(parts), tuple(notes))


def _readers(attention: SpatialAttention) -> list[nn.Module]:
    """The modules of a site that read cells elsewhere; a chain has several."""
    kinds = (TermsAttention, DynamicGrid)
    return [module for module in attention.modules() if isinstance(module, kinds)]


def _size(calls: Mapping[nn.Module, Call]) -> tuple[int, int]:
    """Rows and columns of the map that a place works on."""
    module, call = list(calls.items())[-1]
    if isinstance(module, DeformableConv2d):
        return call.output.shape[-2:]
    grid: Grid2D = call.kwargs["geometry"]
    return grid.height, grid.width


def _check(what: str, place: tuple[int, int], size: tuple[int, ...], whose: str) -> None:
    if any(number >= most for number, most in zip(place, size, strict=True)):
        raise ConfigError(
            f"{what} {place[0]},{place[1]} is outside of {whose}: rows go from 0 to {size[0] - 1}, "
            f"columns from 0 to {size[1] - 1}"
        )


def _said(place: Place) -> str:
    """What a site holds, and how much of it reaches the map."""
    rest, _ = split_convolution(place.spec)
    assert place.attention is not None
    gate = place.attention.gate
    return str(rest) if gate is None else f"{rest}, gate {float(gate.detach()):.2g}"


def detector_view(
    task: DetectionTask, data: DetectionData, split: str, item: str, choice: CellChoice
) -> CellView:
    """Where a cell of a detector's backbone looks in one image.

    Raises:
        ConfigError: there is no such item, layer or cell.
        DataError: there is no such split, or the image can't be read.
    """
    model, spec = task.model.eval(), task.config.backbone
    places = places_of(model.body, spec)
    name = choose_place(places, choice.layer, f"backbone is {spec}")
    position = find_item(item, data.image_ids(split), split)
    image_3HW = batch_at(data, split, position).images[0]
    with torch.no_grad():
        seen, _ = model.transform([image_3HW.to(task.device).float() / 255])
    (size,) = seen.image_sizes

    def forward() -> None:
        model.backbone(seen.tensors, [size] if model.config.mask_padding else None)

    height, width = image_3HW.shape[1:]
    scale = (size[0] / height, size[1] / width)
    image_HW3 = image_3HW.permute(1, 2, 0).numpy()
    return view_of(forward, name, places[name], image_HW3, scale, choice)


def segmenter_view(
    task: SegmentationTask, data: SegmentationData, split: str, item: str, choice: CellChoice
) -> CellView:
    """Where a cell of a segmenter looks in one image, read whole; as ``detector_view``."""
    model, config = task.model.eval(), task.config
    places = places_of(model.body, config.backbone)
    if (head := _head(model.decoder, config.head, model.body.output_stride)) is not None:
        places["head"] = head
    specs = f"backbone is {config.backbone}, head is {config.head}"
    name = choose_place(places, choice.layer, specs)
    position = find_item(item, data.names(split), split)
    images_B3HW = batch_at(data, split, position).images_B3HW.to(task.device)
    image_HW3, _ = data.read(split, position)
    view = view_of(lambda: model(images_B3HW), name, places[name], image_HW3, (1, 1), choice)
    cut = any(side > most for side, most in zip(image_HW3.shape[:2], config.window, strict=True))
    if config.inference == "sliding" and cut:
        note = "the image is read whole here, though this run's inference slides windows over it"
        return replace(view, notes=(*view.notes, note))
    return view


def _head(decoder: nn.Module, spec: str, stride: int) -> Place | None:
    """The module after the backbone, on the map of conv5."""
    attention = getattr(getattr(decoder, "fpn", decoder), "attention", None)
    found = [module for module in decoder.modules() if isinstance(module, DeformableConv2d)]
    convolution = found[0] if found else None
    if attention is None and convolution is None:
        return None
    return Place(spec, attention, convolution, stride)
