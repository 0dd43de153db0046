"""Convolutional backbone for image observations (NatureCNN, Mnih et al., 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.error import SpaceError
from sekai.policy.backbones import (
    NATURE_LAYERS,
    NATURE_PIXELS,
    SMALL_LAYERS,
    channels_first,
    convolution_sides,
)
from sekai.policy.observations import Leaf
from sekai.policy.settings import PolicySettings
from sekai.training.policies.actor_critic import BACKBONES, Backbone, Features, layers, linear

__all__ = ["CNNBackbone"]


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
            _encoder(channels_first(leaves[name].shape, last), settings)
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


def _encoder(shape: tuple[int, int, int], settings: PolicySettings) -> nn.Sequential:
    channels, *sides = shape
    sizes = settings.cnn_layers or (NATURE_LAYERS if min(sides) >= NATURE_PIXELS else SMALL_LAYERS)
    parts: list[nn.Module] = []
    for count, kernel, stride in sizes:
        sides = convolution_sides(sides, kernel, stride, shape)
        layer = nn.Conv2d(channels, count, kernel, stride)
        nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        parts += [layer, nn.ReLU()]
        channels = count
    parts += [nn.Flatten(), linear(channels * math.prod(sides), settings.cnn_features), nn.ReLU()]
    return nn.Sequential(*parts)


BACKBONES["cnn"] = CNNBackbone
