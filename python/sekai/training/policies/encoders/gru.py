"""Read the window of an asset row by row, with a memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sekai.training.policies.encoders.encoder import Encoder
from sekai.training.policies.layers import layers
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["GRUEncoder"]


class GRUEncoder(Encoder):
    """A gated recurrent unit over the rows of the window; what it remembers last is what is read.

    It begins anew with every window, so that nothing has to be carried from step to step.
    """

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        # It reads as many rows as the window has: half the width is a quarter of the work.
        narrow = -(-settings.width // 2)
        self.memory = nn.GRU(channels, narrow)
        for name, weights in self.memory.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(weights)
            else:
                nn.init.zeros_(weights)
        self.join = layers(narrow + own, (settings.width,), settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Read every asset."""
        _, last = self.memory(windows.flatten(0, 1).transpose(0, 1))
        remembered = last[-1].reshape(*windows.shape[:2], -1)
        read: Tensor = self.join(torch.cat([remembered, own], dim=-1))
        return read
