"""Show nothing, for policies that need no input."""

from __future__ import annotations

from sekai.compose.interpreter import StateInterpreter
from sekai.compose.orders.state import SAOEState
from sekai.spaces import Discrete

__all__ = ["DummyStateInterpreter"]


class DummyStateInterpreter(StateInterpreter[SAOEState, int]):
    """The same number for every state."""

    def __init__(self) -> None:
        """There is nothing to choose."""
        # Two values, of which one is never shown: some libraries take no space of one.
        self._space = Discrete(2)

    @property
    def observation_space(self) -> Discrete:
        """What every observation belongs to."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> int:
        """What the policy sees of any state."""
        return 1
