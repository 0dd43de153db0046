"""Callback interface, list of callbacks, and monitored metrics."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from sekai.error import StateError
from sekai.policy.settings import require

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Callback", "CallbackList", "Mode", "Monitor"]


class Callback:
    """Base class of callbacks: override the events of interest."""

    def on_start(self, agent: Agent) -> None:
        """Called when training starts."""

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """Called after each iteration; return True to stop training.

        Metrics that are added are visible to later callbacks of the list. A metric that is not
        known in this iteration is NaN.
        """
        return False

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Called after `on_iteration` of all callbacks, with all metrics."""

    def on_end(self, agent: Agent) -> None:
        """Called when training ends, also by an error."""

    @property
    def is_over(self) -> bool:
        """True if training was stopped by this callback before it was resumed."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """State that is saved in checkpoints."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint; called after `on_start`."""


class CallbackList:
    """Callbacks of one training run; each that was started is also ended."""

    def __init__(self, agent: Agent, callbacks: Sequence[Callback]) -> None:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(f"callbacks must be sekai.training.Callback, got {callback!r}")
        self._agent = agent
        self._named = _named(callbacks)
        self._ends = ExitStack()

    def begin(self, states: Mapping[str, Mapping[str, Any]]) -> bool:
        """Start callbacks and restore their states; return False if one has stopped training."""
        try:
            for name, callback in self._named.items():
                callback.on_start(self._agent)
                self._ends.callback(callback.on_end, self._agent)
                if name in states:
                    _load(callback, states[name])
        except BaseException:
            self._ends.close()
            raise
        return not any(
            name in states and callback.is_over for name, callback in self._named.items()
        )

    def on_iteration(self, metrics: dict[str, float]) -> bool:
        """Call all callbacks after an iteration; return True if one of them stops training."""
        callbacks = self._named.values()
        # All are called, also if one stops training.
        stops = [callback.on_iteration(self._agent, metrics) for callback in callbacks]
        for callback in callbacks:
            callback.after_iteration(self._agent, metrics)
        return any(stops)

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """States by name of the callback."""
        states = {name: callback.state_dict() for name, callback in self._named.items()}
        return {name: state for name, state in states.items() if state}

    def __enter__(self) -> CallbackList:
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
        raise StateError(f"invalid state of {name}: {error!r}") from error


def _named(callbacks: Sequence[Callback]) -> dict[str, Callback]:
    """Callbacks by class name, numbered if there are several."""
    counts: Counter[str] = Counter()
    named = {}
    for callback in callbacks:
        kind = type(callback).__name__
        counts[kind] += 1
        named[kind if counts[kind] == 1 else f"{kind}-{counts[kind]}"] = callback
    return named


Mode = Literal["max", "min"]
"""Maximize or minimize the metric."""


class Monitor:
    """Metric that a callback watches; warns once if it does not exist."""

    def __init__(self, name: str, mode: Mode) -> None:
        require(mode in ("max", "min"), "mode", "'max' or 'min'", mode)
        self.name, self.mode = name, mode
        self._has_warned = False

    @property
    def worst(self) -> float:
        """Value that every other is better than."""
        return -math.inf if self.mode == "max" else math.inf

    def value(self, metrics: Mapping[str, float]) -> float | None:
        """Value of the metric; None if it is missing or NaN."""
        value = metrics.get(self.name)
        if value is None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"unknown metric {self.name!r}; expected one of {', '.join(metrics)} "
                "(metrics of other callbacks are visible to later ones of the list)",
                UserWarning,
                stacklevel=3,
            )
        return None if value is None or math.isnan(value) else value

    def is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        """Return True if a value is better than another by more than `by`."""
        return value > than + by if self.mode == "max" else value < than - by
