"""What the settings of detection and segmentation share: they are checked on the model itself."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from pydantic import model_validator

from ..models.attention import SiteError, SpecError
from ..models.image_config import DetectorConfig, SegmenterConfig
from .errors import ConfigError
from .training_config import TrainingConfig

_PROBLEMS: dict[str, SpecError | SiteError | None] = {}
"""What is wrong with models that were tried already, by their settings."""

_WIDTHS = ("fpn_channels", "box_head_dim", "decoder_channels")


class ImageConfig(TrainingConfig):
    """Settings of training a model with an attended ResNet."""

    def network(self, classes: int) -> DetectorConfig | SegmenterConfig:
        """The part of the settings that the model needs.

        Args:
            classes: of the data, without background and void.
        """
        raise NotImplementedError

    @model_validator(mode="after")
    def _fits_the_width(self) -> Self:
        problem = _problem(self.network(classes=2))
        if isinstance(problem, SpecError):
            raise ValueError(str(problem)) from problem
        return self

    def refusal(self) -> str | None:
        """Why the attention can't stand in this model, e.g. with its strides or its decoder."""
        problem = _problem(self.network(classes=2))
        return None if problem is None else str(problem)

    @property
    def first_weights(self) -> Path | None:
        """As in ``TrainingConfig``."""
        return self.network(classes=2).weights

    def check_training(self) -> None:
        """Raise ConfigError where the file of weights is missing, or frozen norms have none."""
        from ..models.backbones import WeightsError, check_file

        settings = self.network(classes=2)
        if settings.weights is not None:
            try:
                check_file(settings.weights)
            except WeightsError as error:
                raise ConfigError(str(error)) from error
        elif settings.batch_norm == "frozen":
            raise ConfigError(
                "batch_norm=frozen keeps what trained weights have learnt, and there are none: set "
                f"weights to a file of {settings.resnet} trained on ImageNet, or batch_norm=batch "
                "to learn from scratch"
            )


def _problem(config: DetectorConfig | SegmenterConfig) -> SpecError | SiteError | None:
    """What is wrong with a model, which is built without allocating anything."""
    from ..models.detector import Detector
    from ..models.segmenter import Segmenter

    config = config.model_copy(update={"weights": None})
    key = f"{type(config).__name__} {config.model_dump_json()}"
    if key not in _PROBLEMS:
        try:
            with torch.device("meta"):
                Detector(config) if isinstance(config, DetectorConfig) else Segmenter(config)
            _PROBLEMS[key] = None
        except (SpecError, SiteError) as error:
            _PROBLEMS[key] = error
        except (RuntimeError, TypeError) as error:
            if "overflow" not in str(error).lower():  # of 64 bits: nothing is allocated here
                raise
            widths = [name for name in _WIDTHS if hasattr(config, name)]
            _PROBLEMS[key] = SpecError(
                "the model has more weights than any machine can hold: lower "
                f"{', '.join(widths)} or the kernels of attention"
            )
    return _PROBLEMS[key]
