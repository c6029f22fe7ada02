"""Encoder and decoder layers that take any attention module, feed-forward and positions."""

from .cross_entropy import projected_cross_entropy
from .positions import SinusoidalPositions
from .transformer import DecoderLayer, EncoderLayer, FeedForward

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "SinusoidalPositions",
    "projected_cross_entropy",
]
