"""Plain layers, begun as is good for learning by rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["QuickTanh", "activation", "layers", "linear"]


class QuickTanh(nn.Module):
    """The hyperbolic tangent, to rounding, in a third of the time that `nn.Tanh` takes.

    In policies of the usual size that one function costs more than all products of matrices.
    """

    def forward(self, numbers: Tensor) -> Tensor:
        """The tangents of all numbers."""
        # tanh(x) = 2 sigmoid(2 x) - 1, and sigmoids are worked out several at a time.
        return torch.rsub(torch.sigmoid(numbers + numbers), -1.0, alpha=-2.0)


_KINDS = {"tanh": QuickTanh, "relu": nn.ReLU, "silu": nn.SiLU}


def activation(settings: PolicySettings) -> nn.Module:
    """The bend between two layers."""
    made: nn.Module = _KINDS[settings.activation]()
    return made


def linear(wide: int, narrow: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """A layer whose rows start at right angles to each other, so that signals keep their size."""
    layer = nn.Linear(wide, narrow)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def layers(width: int, hidden: Sequence[int], settings: PolicySettings) -> nn.Sequential:
    """Layers from so many numbers to the last of `hidden`."""
    parts: list[nn.Module] = []
    for narrow in hidden:
        parts += [linear(width, narrow), activation(settings)]
        width = narrow
    return nn.Sequential(*parts)
