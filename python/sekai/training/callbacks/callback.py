"""What training tells, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Callback"]


class Callback:
    """Override what you want to hear of."""

    def on_start(self, agent: Agent) -> None:
        """Training begins."""

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """An iteration is over. True ends training.

        What is added to `metrics` is seen by the callbacks that come later in the list. A metric
        that is not known this time is NaN.
        """
        return False

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Everybody has heard of the iteration: all metrics are there, and nothing changes."""

    def on_end(self, agent: Agent) -> None:
        """Training is over, or was ended by an error."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to train; asked when training goes on from a file."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """What is kept with the agent, so that training that goes on is none the wiser."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; called after `on_start`, where training goes on from a file."""
