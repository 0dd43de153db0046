"""All who are told of a training, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sekai.error import StateError
from sekai.training.callbacks.callback import Callback

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Audience"]


class Audience:
    """Callbacks that hear of one training; who has heard of its start hears of its end."""

    def __init__(self, agent: Agent, callbacks: Sequence[Callback]) -> None:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(f"callbacks must be sekai.training.Callback, found {callback!r}")
        self._agent = agent
        self._named = _named(callbacks)
        self._ends = ExitStack()

    def begin(self, kept: Mapping[str, Mapping[str, Any]]) -> bool:
        """Tell of the start, and of what was kept; whether there is something left to do."""
        try:
            for name, callback in self._named.items():
                callback.on_start(self._agent)
                self._ends.callback(callback.on_end, self._agent)
                if name in kept:
                    _load(callback, kept[name])
        except BaseException:
            self._ends.close()
            raise
        return not any(name in kept and one.is_over for name, one in self._named.items())

    def tell(self, metrics: dict[str, float]) -> bool:
        """Tell of an iteration; whether somebody wants to stop."""
        callbacks = self._named.values()
        # Everybody is told, also when one of them wants to stop.
        wishes = [callback.on_iteration(self._agent, metrics) for callback in callbacks]
        for callback in callbacks:
            callback.after_iteration(self._agent, metrics)
        return any(wishes)

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """What each of them keeps, by name."""
        states = {name: callback.state_dict() for name, callback in self._named.items()}
        return {name: state for name, state in states.items() if state}

    def __enter__(self) -> Audience:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.__exit__(kind, error, trace)


def _load(callback: Callback, state: Mapping[str, Any]) -> None:
    try:
        callback.load_state_dict(state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        name = type(callback).__name__
        raise StateError(f"what was kept of {name} cannot be gone on with: {error!r}") from error


def _named(callbacks: Sequence[Callback]) -> dict[str, Callback]:
    """Each by its type, with a number where there are several."""
    seen: Counter[str] = Counter()
    named = {}
    for callback in callbacks:
        kind = type(callback).__name__
        seen[kind] += 1
        named[kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"] = callback
    return named
