"""Backbones: networks that turn images into feature maps."""
