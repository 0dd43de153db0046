"""What a backbone makes of an observation, for heads to decide on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

__all__ = ["Backbone", "Features"]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What was understood of a batch of observations."""

    whole: Tensor
    """Of all together: batch by width."""

    slots: Tensor | None = None
    """Of each asset, if the observation has assets: batch by slots by width."""

    mask: Tensor | None = None
    """Which slots are in use: batch by slots."""


class Backbone(nn.Module, ABC):
    """A network that reads observations."""

    width: int
    """How many numbers it makes of all together, and of each slot."""

    slots: int = 0
    """How many slots it tells of, if of any."""

    mask_name: str | None = None
    """The leaf of the observation that says which slots are in use; None if all are."""

    @abstractmethod
    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Understand a batch."""
