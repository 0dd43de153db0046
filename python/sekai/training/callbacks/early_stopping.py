"""End training when it has long led to nothing better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from sekai.training.callbacks.callback import Callback
from sekai.training.callbacks.monitor import Mode, Monitor
from sekai.training.keeping import load_network
from sekai.training.settings import require

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["EarlyStopping"]


class EarlyStopping(Callback):
    """Counts how often the metric was known and no better, and stops when it was too often."""

    def __init__(
        self,
        monitor: str = "eval/return",
        *,
        min_delta: float = 0.0,
        patience: int = 10,
        mode: Mode = "max",
        baseline: float | None = None,
        restore_best: bool = False,
    ) -> None:
        """Say what is watched, and for how long.

        Args:
            monitor: the metric; those of `Evaluate` are there if it comes earlier in the list.
            min_delta: what is better by no more than this is no better.
            patience: how many times in a row it may be known and no better.
            mode: "max" if more is better, "min" if less is.
            baseline: as long as this is not beaten, nothing counts as better.
            restore_best: whether the agent gets back the weights it was best with when it is
                stopped. Where its steps run out first, it keeps the last.
        """
        require(min_delta >= 0, "min_delta", "at least 0", min_delta)
        require(patience >= 1, "patience", "at least 1", patience)
        self.monitor = Monitor(monitor, mode)
        self.min_delta, self.patience = min_delta, patience
        self.baseline, self.restore_best = baseline, restore_best
        self._forget()

    def _forget(self) -> None:
        self.best = self.monitor.worst
        self.waited = 0
        self.stopped_at: int | None = None
        self._weights: dict[str, Tensor] | None = None

    def on_start(self, agent: Agent) -> None:
        """Begin to watch."""
        self._forget()

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """Stop if it is enough."""
        value = self.monitor.value(metrics)
        if value is None:
            return False
        self.waited += 1
        if self.monitor.is_better(value, self.best, self.min_delta):
            self.best = value
            if self.restore_best:
                own = agent.network.state_dict()
                self._weights = {name: weights.clone() for name, weights in own.items()}
            if self.baseline is None or self.monitor.is_better(value, self.baseline):
                self.waited = 0
        if self.waited < self.patience:
            return False
        self.stopped_at = agent.iterations
        if self._weights is not None:
            load_network(agent.network, self._weights)
        return True

    @property
    def is_over(self) -> bool:
        """Whether training was stopped."""
        return self.stopped_at is not None

    def state_dict(self) -> dict[str, Any]:
        """What was seen so far."""
        return {
            "best": self.best,
            "waited": self.waited,
            "stopped_at": self.stopped_at,
            "weights": self._weights,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.best, self.waited = float(state["best"]), int(state["waited"])
        self.stopped_at, self._weights = state["stopped_at"], state["weights"]
