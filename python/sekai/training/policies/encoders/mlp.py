"""Read the window of an asset as numbers in a row."""

from __future__ import annotations

import torch
from torch import Tensor

from sekai.training.policies.encoders.encoder import Encoder
from sekai.training.policies.layers import layers
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["MLPEncoder"]


class MLPEncoder(Encoder):
    """Plain layers: each place of the window has weights of its own."""

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        hidden = (settings.width,) * settings.encoder_layers
        self.body = layers(times * channels + own, hidden, settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Read every asset."""
        read: Tensor = self.body(torch.cat([windows.flatten(2), own], dim=-1))
        return read
