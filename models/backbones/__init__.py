"""Backbones: networks that turn images into feature maps."""

from .resnet import NORMS, RESNETS, AttendedBlock, AttendedResNet, Norm
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
