"""Read the window of an asset as numbers in a row."""

from __future__ import annotations

from torch import Tensor, nn

from sekai.training.policies.encoders.encoder import Encoder
from sekai.training.policies.layers import activation, layers, linear
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["MLPEncoder"]


class MLPEncoder(Encoder):
    """Plain layers: each place of the window has weights of its own."""

    def __init__(self, times: int, channels: int, own: int, settings: PolicySettings) -> None:
        super().__init__()
        self.width = settings.width
        self.window = linear(times * channels, settings.width)
        # Apart, since to put them beside the windows would be to copy these.
        self.own = nn.Linear(own, settings.width, bias=False) if own else None
        self.bend = activation(settings)
        hidden = (settings.width,) * (settings.encoder_layers - 1)
        self.rest = layers(settings.width, hidden, settings)

    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Read every asset."""
        first = self.window(windows.flatten(2))
        if self.own is not None:
            first = first + self.own(own)
        read: Tensor = self.rest(self.bend(first))
        return read
