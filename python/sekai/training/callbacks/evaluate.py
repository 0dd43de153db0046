"""Evaluation during training, and early stopping on a metric."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from sekai.data.signature import checked_allow, require_same_data
from sekai.error import DataMismatchError, SpaceError
from sekai.policy.settings import require
from sekai.training.callbacks.callback import Callback, Mode, Monitor
from sekai.training.checkpoint import load_network
from sekai.training.training_envs import make_training_envs, play
from sekai.vector.multi_agent import MultiAgentVecEnv
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["EarlyStopping", "Evaluate"]


class Evaluate(Callback):
    """Evaluates the agent every few iterations on episodes with deterministic actions.

    Adds `eval/return`, `eval/return_spread`, `eval/worst_return`, `eval/length` and
    `eval/episodes` to the metrics; NaN in the iterations between. The envs start from the same
    seed each time, and training is not affected. Returns of several agents are summed.

    Args:
        env: an id, a spec, an env, a vector env or a function, as for agents.
        every: iterations between evaluations.
        episodes: number of episodes, rounded up to a multiple of the envs.
        seed: seed of the envs.
        save: path for the policy with the highest mean return, without training state.
        prefix: prefix of the metrics.
        env_options: keyword arguments of the env, if it is an id: held-out data, for example.
        allow: differences from the data of training that are allowed; see `load_policy`.
    """

    def __init__(
        self,
        env: Any,
        *,
        every: int = 10,
        episodes: int = 16,
        seed: int = 1_000_003,
        save: str | os.PathLike[str] | None = None,
        prefix: str = "eval/",
        env_options: Mapping[str, Any] | None = None,
        allow: Collection[str] = (),
    ) -> None:
        self.allow = checked_allow(allow)
        require(every >= 1, "every", "at least 1 iteration", every)
        require(episodes >= 1, "episodes", "at least 1", episodes)
        self.env, self.env_options = env, env_options
        self.every, self.episodes, self.seed = every, episodes, seed
        self.save, self.prefix = save, prefix
        self.best = -math.inf
        self._vec: VecEnv | None = None
        self._names: list[str] = []

    def on_start(self, agent: Agent) -> None:
        """Make the envs and check their spaces."""
        vec = make_training_envs(self.env, self.episodes, self.env_options)
        try:
            require_same_data(agent, vec, self.allow)
        except DataMismatchError:
            self._close(vec)
            raise
        for name in ("observation_space", "action_space"):
            if getattr(vec, name) != getattr(agent.vec, name):
                self._close(vec)
                raise SpaceError(f"{self.env!r} has another {name} than the training env")
        self._vec, self.best = vec, -math.inf

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """Evaluate if it is due."""
        if agent.iterations % self.every:
            metrics.update(dict.fromkeys(self._names or [f"{self.prefix}return"], math.nan))
            return False
        assert self._vec is not None, "made in on_start"
        eval_metrics = play(agent, self._vec, self.episodes, self.seed).metrics(self.prefix)
        self._names = list(eval_metrics)
        metrics.update(eval_metrics)
        reached = eval_metrics[f"{self.prefix}return"]
        if reached > self.best:
            self.best = reached
            if self.save is not None:
                agent.save(self.save, training=False)
        return False

    def on_end(self, agent: Agent) -> None:
        """Close the envs."""
        vec, self._vec = self._vec, None
        if vec is not None:
            self._close(vec)

    def state_dict(self) -> dict[str, Any]:
        """Best mean return so far."""
        return {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.best = float(state["best"])

    def _close(self, vec: VecEnv) -> None:
        if not isinstance(self.env, (VecEnv, MultiAgentVecEnv)):
            vec.close()


class EarlyStopping(Callback):
    """Stops training when a metric has not improved for some evaluations.

    Args:
        monitor: metric; those of `Evaluate` need it earlier in the list.
        min_delta: smallest change that counts as an improvement.
        patience: evaluations without improvement before training stops.
        mode: "max" or "min".
        baseline: value that must be reached before improvements count.
        restore_best: restore the best weights when training is stopped by this callback.
    """

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
        require(min_delta >= 0, "min_delta", "at least 0", min_delta)
        require(patience >= 1, "patience", "at least 1", patience)
        self.monitor = Monitor(monitor, mode)
        self.min_delta, self.patience = min_delta, patience
        self.baseline, self.restore_best = baseline, restore_best
        self._reset()

    def _reset(self) -> None:
        self.best = self.monitor.worst
        self.waited = 0
        self.stopped_at: int | None = None
        self._weights: dict[str, Tensor] | None = None

    def on_start(self, agent: Agent) -> None:
        """Reset the counters."""
        self._reset()

    def on_iteration(self, agent: Agent, metrics: dict[str, float]) -> bool:
        """Stop when the patience is exhausted."""
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
        """True if training was stopped."""
        return self.stopped_at is not None

    def state_dict(self) -> dict[str, Any]:
        """State for checkpoints."""
        return {
            "best": self.best,
            "waited": self.waited,
            "stopped_at": self.stopped_at,
            "weights": self._weights,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.best, self.waited = float(state["best"]), int(state["waited"])
        self.stopped_at, self._weights = state["stopped_at"], state["weights"]
