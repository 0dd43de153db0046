"""How assets learn of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

__all__ = ["Aggregator"]


class Aggregator(nn.Module, ABC):
    """Adds to what is known of each asset what the others tell it.

    It is made with the layout of the slots and the settings. The order of the slots says nothing,
    and slots that are not in use say nothing.
    """

    @abstractmethod
    def forward(self, slots: Tensor, mask: Tensor | None, windows: Tensor) -> Tensor:
        """Let the assets tell each other.

        Args:
            slots: what is known of each: batch by slots by width; nothing where none is in use.
            mask: which slots are in use: batch by slots; None for all.
            windows: what each was seen to do: batch by slots by times by channels.

        Returns:
            Batch by slots by width.
        """
