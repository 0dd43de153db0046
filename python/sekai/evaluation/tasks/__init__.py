"""Evaluation tasks: how episodes of an environment are read and which metric ranks policies."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Episode, Flag
from sekai.spaces import Box, Discrete, MultiDiscrete
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.env_source import EnvSource
    from sekai.evaluation.policy import StepContext
    from sekai.evaluation.recorder import RecordedEpisode

__all__ = ["Task", "config_of", "reconfigured", "task_of"]

Floats = NDArray[np.float64]
Config = TypeVar("Config")

TASKS = {
    "Portfolio": "portfolio:PortfolioTask",
    "MultiPortfolio": "portfolio:MultiPortfolioTask",
    "Trading": "trading:TradingTask",
    "MarketMaking": "trading:MarketMakingTask",
    "OptimalExecution": "execution:ExecutionTask",
    "OrderExecution": "execution:OrderExecutionTask",
    "ComposedOrderExecution": "execution:OrderExecutionTask",
    "BasketExecution": "execution:BasketExecutionTask",
}
"""Module and class of the task of each env class."""


class Task:
    """Task of any env: policies are ranked by episode return."""

    name = "episodes"
    headline = "episode_return"
    higher_is_better = True

    baselines: tuple[str, ...] = ("random", "idle", "last_action")
    """Default baselines."""

    def __init__(self, source: EnvSource) -> None:
        self.source = source

    def recording_source(self) -> EnvSource:
        """Return the env source with trade logs switched on where the env has them."""
        return self.source

    def prepared(self, source: EnvSource) -> EnvSource:
        """Return an equivalent source with costly inputs computed once."""
        return source

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with scaled trading costs; None without costs to scale."""
        return None

    @property
    def data_digest(self) -> str:
        """Digest of the data; "" for envs simulated from seeds."""
        return ""

    @property
    def judged_digest(self) -> str:
        """Digest of the rows that policies are judged on: the data set of a trial ledger."""
        return self.data_digest or self.source.name

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """Timestamps of all rows; None where steps have no dates."""
        return None

    def flags(self) -> list[Flag]:
        """Warning flags about the env itself."""
        return []

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Return notes by env index that `episode` needs, taken before the first step."""
        return {}

    def end(self, vec: VecEnv) -> Mapping[int, Any]:
        """Return the log of the first episode since `begin`, by env index."""
        return {}

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Convert a recorded episode, with its notes of `begin` and log of `end`."""
        return Episode(
            seed=recorded.seed,
            rewards=recorded.rewards,
            equity=np.zeros(0),
            actions=recorded.actions,
        )

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return actions that do nothing, or come closest to it."""
        space, count = vec.action_space, vec.num_envs
        if isinstance(space, Discrete):
            return np.full(count, space.start, space.dtype)
        if isinstance(space, MultiDiscrete):
            return np.zeros((count, *space.shape), space.dtype)
        if isinstance(space, Box):
            nearest = np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
            return np.repeat(nearest[None], count, axis=0)
        from sekai.vector.batching import Batcher

        space.seed(0)
        return Batcher(space).stack([space.sample()] * count)

    @property
    def benchmark(self) -> str:
        """Name of the benchmark of alpha and beta; "" without one."""
        return ""

    def per_episode(
        self, name: str, values: Sequence[float], episodes: Sequence[Episode]
    ) -> list[float]:
        """Values of a metric by episode whose mean is the metric over all episodes."""
        return list(values)


def task_of(source: EnvSource) -> Task:
    """Return the task of an env source; unknown envs are ranked by episode return."""
    if source.env_class not in TASKS:
        return Task(source)
    module, _, name = TASKS[source.env_class].partition(":")
    task: Task = getattr(importlib.import_module(f"{__name__}.{module}"), name)(source)
    return task


def config_of(kind: type[Config], source: EnvSource) -> Config:
    """Config of the envs of a source: its `config` option, or one built from its options."""
    options = source.options or {}
    if options.get("config") is not None:
        config: Config = options["config"]
        return config
    fields: Mapping[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: options[name] for name in fields if name in options})


def reconfigured(source: EnvSource, **changes: Any) -> EnvSource:
    """Return the source with fields of its config changed; unchanged if it has no options."""
    if source.options is None:
        return source
    config = source.options.get("config")
    if config is not None:
        return source.with_options(config=replace(config, **changes))
    return source.with_options(**changes)
