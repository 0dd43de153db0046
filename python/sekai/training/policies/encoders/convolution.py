"""Read the window of an asset by filters that slide over time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sekai.training.policies.encoders.encoder import Encoder
from sekai.training.policies.layers import activation, layers, linear
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["ConvolutionEncoder"]

KERNEL, STRIDE = 3, 2


class ConvolutionEncoder(Encoder):
    """Causal filters, each layer of which sees half as many rows; the latest row is what is read.

    A pattern is known wherever in the window it appears. Zeros stand before the first row, so that
    short windows can be read as well.
    """

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        self.filters = nn.ModuleList()
        self.bend = activation(settings)
        # There are as many rows as assets to read: half the width is a quarter of the work.
        narrow, wide = -(-settings.width // 2), channels
        # As many as it takes until one row is left that has seen all of them.
        while times > 1 or not self.filters:
            self.filters.append(linear(KERNEL * wide, narrow))
            wide, times = narrow, -(-times // STRIDE)
        self.join = layers(narrow + own, (settings.width,), settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Read every asset."""
        rows = windows.flatten(0, 1)
        for filtered in self.filters:
            rows = self.bend(filtered(_pieces(rows)))
        latest = rows[:, -1].reshape(*windows.shape[:2], -1)
        read: Tensor = self.join(torch.cat([latest, own], dim=-1))
        return read


def _pieces(rows: Tensor) -> Tensor:
    """Overlapping pieces of `KERNEL` rows, of which the last ends with the last row."""
    count, times, channels = rows.shape
    pieces = -(-times // STRIDE)
    before = (pieces - 1) * STRIDE + KERNEL - times
    padded = torch.cat([rows.new_zeros(count, before, channels), rows], dim=1)
    # Laid out so that a filter is one product of matrices: quicker than a convolution on CPUs.
    return padded.unfold(1, KERNEL, STRIDE).flatten(2)
