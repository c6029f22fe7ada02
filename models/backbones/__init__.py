"""Backbones: networks that turn images into feature maps."""

from .block import AttendedBlock
from .resnet import NORMS, RESNETS, AttendedResNet, Norm
from .settings import BackboneSettings
from .weights import WeightsError

__all__ = [
    "NORMS",
    "RESNETS",
    "AttendedBlock",
    "AttendedResNet",
    "BackboneSettings",
    "Norm",
    "WeightsError",
]
