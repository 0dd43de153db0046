"""How envs act while an agent learns: here, or elsewhere in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sekai.training.agent_settings import AgentSettings
from sekai.training.randomness import Portion
from sekai.vector.seeding import Seeds

__all__ = ["Acting", "Elsewhere"]


class Elsewhere(Protocol):
    """Who lets the envs of an agent act in other processes."""

    def play(self, moments: Sequence[int]) -> None:
        """Do what `Acting._play` does."""

    def bring_home(self) -> None:
        """Let the agent's own envs be where those elsewhere are."""


class Acting(ABC):
    """What can be done by one, or by several with some of the envs each: act."""

    settings: AgentSettings
    _crew: Elsewhere | None = None

    @abstractmethod
    def _start(self, seed: Seeds) -> None:
        """Start the envs."""

    def _let_act(self, moments: Sequence[int]) -> None:
        """Let all envs act, here or elsewhere; see `_play`."""
        if self._crew is None:
            self._play(moments)
        else:
            self._crew.play(moments)

    @abstractmethod
    def _play(self, moments: Sequence[int]) -> None:
        """Let all envs act as often as is due, and store it.

        Args:
            moments: before each step that updates may follow, how many of single envs were taken.
        """

    @abstractmethod
    def _played(self, steps: int) -> dict[str, Any]:
        """What was stored last, for `_take_played` of an agent with more envs."""

    @abstractmethod
    def _take_played(self, parts: Sequence[tuple[Portion, dict[str, Any]]]) -> None:
        """Store what was done elsewhere, in parts of some of the envs each."""

    @abstractmethod
    def _acting_state(self) -> dict[str, Any]:
        """What acting goes on from, beside envs and network: arrays with a row for each env."""

    @abstractmethod
    def _load_acting_state(self, state: Mapping[str, Any]) -> None:
        """Act on from there."""

    def _worker_settings(self, num_envs: int) -> AgentSettings:
        """The settings of one that acts for some of the envs."""
        return self.settings.replaced(num_envs=num_envs)

    @abstractmethod
    def _worker_options(self) -> dict[str, Any]:
        """What else one is made with that acts for some of the envs."""
