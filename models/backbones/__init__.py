"""Backbones: networks that turn images into feature maps."""

from .block import AttendedBlock
from .resnet import NORMS, AttendedResNet, Norm
from .weights import WeightsError, check_file

__all__ = [
    "NORMS",
    "AttendedBlock",
    "AttendedResNet",
    "Norm",
    "WeightsError",
    "check_file",
]
