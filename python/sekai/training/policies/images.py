"""Convolutional backbone for image observations (NatureCNN, Mnih et al., 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.training.agent_settings import PolicySettings
from sekai.training.observations import Leaf
from sekai.training.policies.actor_critic import BACKBONES, Backbone, Features, layers, linear

__all__ = ["CNNBackbone"]

NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of each layer, for images of at least 36 pixels a side."""

SMALL_LAYERS = ((16, 3, 2), (32, 3, 2))
"""The same for smaller images."""

NATURE_PIXELS = 36


class CNNBackbone(Backbone):
    """Convolutions over images; other parts of the observation are joined to their features.

    Images are of shape (height, width, channels) or (channels, height, width): the channels are
    the shorter of the first and the last axis.
    """

    def __init__(self, leaves: Mapping[str, Leaf], settings: PolicySettings) -> None:
        super().__init__()
        images = [
            name for name, leaf in leaves.items() if leaf.is_measured and len(leaf.shape) == 3
        ]
        if not images:
            raise SpaceError(
                "backbone 'cnn' needs an image in the observation, a Box of shape (height, width, "
                f"channels); got {', '.join(leaves)}: use 'mlp', or another wrapper"
            )
        # Modules are found by index: names of leaves may have dots.
        self.images = images
        self.is_last = [leaves[name].shape[2] <= leaves[name].shape[0] for name in images]
        self.rest = [name for name in leaves if name not in images]
        self.encoders = nn.ModuleList(
            _encoder(_channels_first(leaves[name].shape, last), settings)
            for name, last in zip(images, self.is_last, strict=True)
        )
        width = settings.cnn_features * len(images) + sum(leaves[name].width for name in self.rest)
        self.body = layers(width, settings.net_arch, settings)
        self.width = settings.net_arch[-1] if settings.net_arch else width

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Extract features of a batch."""
        parts = [
            encoder(inputs[name].movedim(-1, 1) if is_last else inputs[name])
            for name, is_last, encoder in zip(self.images, self.is_last, self.encoders, strict=True)
        ]
        parts += [inputs[name].reshape(len(inputs[name]), -1) for name in self.rest]
        return Features(self.body(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)))


def _channels_first(shape: tuple[int, ...], is_last: bool) -> tuple[int, int, int]:
    first, second, third = shape
    return (third, first, second) if is_last else (first, second, third)


def _encoder(shape: tuple[int, int, int], settings: PolicySettings) -> nn.Sequential:
    channels, *sides = shape
    sizes = settings.cnn_layers or (NATURE_LAYERS if min(sides) >= NATURE_PIXELS else SMALL_LAYERS)
    parts: list[nn.Module] = []
    for count, kernel, stride in sizes:
        sides = _shrunk(sides, kernel, stride, shape)
        layer = nn.Conv2d(channels, count, kernel, stride)
        nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        parts += [layer, nn.ReLU()]
        channels = count
    parts += [nn.Flatten(), linear(channels * math.prod(sides), settings.cnn_features), nn.ReLU()]
    return nn.Sequential(*parts)


def _shrunk(sides: Sequence[int], kernel: int, stride: int, shape: tuple[int, ...]) -> list[int]:
    if min(sides) < kernel:
        raise ValueError(
            f"cnn_layers do not fit an image of shape {shape}: a kernel of {kernel} needs at least "
            f"{kernel} pixels and {min(sides)} are left; use smaller kernels or strides"
        )
    return [(side - kernel) // stride + 1 for side in sides]


BACKBONES["cnn"] = CNNBackbone
