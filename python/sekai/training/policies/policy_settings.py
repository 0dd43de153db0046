"""How the networks of a policy are built."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sekai.training.settings import Settings, require

__all__ = ["PolicySettings"]

ACTIVATIONS = ("tanh", "relu", "silu")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicySettings(Settings):
    """Sizes and kinds of a policy's parts."""

    backbone: str = "auto"
    """"mlp" reads all numbers in a row; "auto" chooses by the space."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the layers between what is read and what is decided."""

    activation: Literal["tanh", "relu", "silu"] = "tanh"

    initial_spread: float = 0.5
    """The standard deviation with which numbers near [-1, 1] are chosen at first."""

    normalise: bool = True
    """Whether observations are centred and scaled by what was seen so far."""

    def __post_init__(self) -> None:
        require(self.activation in ACTIVATIONS, "activation", f"one of {ACTIVATIONS}",
                self.activation)  # fmt: skip
        whole = all(isinstance(width, int) and width > 0 for width in self.hidden)
        require(whole, "hidden", "whole numbers of at least 1", self.hidden)
        self._require_positive("initial_spread")
