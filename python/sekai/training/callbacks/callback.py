"""What training tells, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Callback"]


class Callback:
    """Override what you want to hear of."""

    def on_start(self, agent: Agent) -> None:
        """Training begins."""

    def on_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> bool:
        """An iteration is over. True ends training."""
        return False

    def on_end(self, agent: Agent) -> None:
        """Training is over, or was ended by an error."""
