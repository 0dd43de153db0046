"""Holding a portfolio, judged by its Sharpe ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs.portfolio_benchmark import Benchmark
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_log import COST_KINDS, EpisodeLog
from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.tasks.task import Record, Task
from sekai.spaces import MultiDiscrete
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["PortfolioTask"]

Floats = NDArray[np.float64]

SCALED = ("proportional", "fixed", "half_spread", "borrow", "financing")
"""What is paid for trading and holding; what is earned, and lost to a delisting, stays."""


class PortfolioTask(Task):
    """Equity, weights, costs and trades come from the env's own books."""

    name = "portfolio"
    headline = "sharpe"
    baselines = (
        "equal_weight", "buy_and_hold", "minimum_variance", "risk_parity", "momentum", "random",
    )  # fmt: skip

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena)
        self._data: MarketData | None = None
        self._marks: Floats | None = None
        self._market: Floats | None = None

    def config(self) -> PortfolioConfig | None:
        """How episodes are cut and traded; None where nobody knows."""
        options = self.arena.options
        if options is None:
            return None
        if options.get("config") is not None:
            given: PortfolioConfig = options["config"]
            return given
        known = PortfolioConfig.__dataclass_fields__
        return PortfolioConfig(**{name: options[name] for name in known if name in options})

    def changed(self, **changes: Any) -> Arena | None:
        """The arena with some fields of the config changed; None if it can not be."""
        config = self.config()
        if config is None:
            return None
        if self.arena.options is not None and self.arena.options.get("config") is not None:
            return self.arena.with_options(config=replace(config, **changes))
        return self.arena.with_options(**changes)

    def recorded(self) -> Arena:
        """The arena with logs of trades and weights."""
        changed = self.changed(record=True)
        return self.arena if changed is None else changed

    def with_costs(self, multiple: float) -> Arena | None:
        """The same data and accounts, with all rates of costs multiplied."""
        config = self.config()
        if config is None:
            return None
        costs = config.costs
        data = (self.arena.options or {}).get("data")
        has_volume = data is None or "volume" in data.fields
        impact = costs.settings(has_volume)["impact"]
        scaled = {name: getattr(costs, name) * multiple for name in SCALED}
        return self.changed(costs=replace(costs, impact=impact * multiple, **scaled))

    @property
    def data_digest(self) -> str:
        """The digest of the panel that is traded on."""
        data = (self.arena.options or {}).get("data", self._data)
        return "" if data is None else data.digest

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """The dates of all rows."""
        return None if self._data is None else self._data.times

    @property
    def data(self) -> MarketData | None:
        """What is traded on, once something was played."""
        return self._data

    @property
    def marks(self) -> Floats:
        """The last known close of each asset in each row; NaN before the first."""
        if self._marks is None:
            assert self._data is not None, "marks are of data that was played on"
            self._marks = _carried(self._data.field("close"))
        return self._marks

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Find the data, and forget what was logged before."""
        found = _data_of(vec)
        if found is not self._data:
            self._data, self._marks, self._market = found, None, None
        self._take(vec)
        return {}

    def end(self, vec: VecEnv) -> Mapping[int, Any]:
        """The log of the first episode in each env."""
        return self._take(vec)

    def _take(self, vec: VecEnv) -> dict[int, EpisodeLog]:
        batch = getattr(vec, "batch", None)
        if batch is None or self._data is None or not _records(batch):
            return {}
        logs: dict[int, EpisodeLog] = {}
        for log in EpisodeLog.take(batch):
            if len(log.steps):
                logs.setdefault(log.env, log)
        return logs

    def episode(self, record: Record, told: Any, log: EpisodeLog | None) -> Episode:
        """The account, step by step."""
        infos = record.infos
        rows = infos["time_index"].astype(np.int64) if "time_index" in infos else None
        data = self._data
        known = data is not None and rows is not None
        return Episode(
            seed=record.seed,
            rewards=record.rewards,
            equity=infos.get("equity", np.zeros(0)),
            times=data.times[rows] if data is not None and rows is not None else None,
            assets=() if data is None else data.assets,
            actions=record.actions,
            weights=None if log is None else log.steps.weights,
            prices=self.marks[rows] if known else None,
            turnover=infos["turnover"][1:] if "turnover" in infos else None,
            costs={kind: infos[kind][1:] for kind in COST_KINDS if kind in infos},
            fills=None if log is None or rows is None else _fills(log, rows),
        )

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """What is held already."""
        if isinstance(vec.action_space, MultiDiscrete):
            return np.ones((vec.num_envs, *vec.action_space.shape), vec.action_space.dtype)
        return moment.observations["weights"].astype(np.float64)

    def benchmark(self, episode: Episode) -> Floats | None:
        """The returns of what the env compares with."""
        if self._data is None or episode.times is None:
            return None
        if self._market is None:
            config = self.config()
            name = "equal_weight" if config is None else config.benchmark
            returns = Benchmark(name, self._data).returns(self._data)
            self._market = np.append(1.0, np.cumprod(1.0 + returns))[1:]
        rows = np.searchsorted(self._data.times, episode.times)
        levels = self._market[rows]
        found: Floats = levels[1:] / levels[:-1] - 1.0
        return found


def _records(batch: Any) -> bool:
    config = getattr(batch, "config", None)
    return bool(getattr(config, "record", False))


def _data_of(vec: VecEnv) -> MarketData | None:
    batch = getattr(vec, "batch", None)
    if batch is not None:
        found: MarketData | None = getattr(batch, "data", None)
        return found
    envs = getattr(vec, "envs", None)
    return None if not envs else getattr(envs[0].unwrapped, "data", None)


def _carried(levels: Floats) -> Floats:
    rows = np.where(np.isfinite(levels), np.arange(len(levels))[:, None], 0)
    latest: Floats = np.take_along_axis(levels, np.maximum.accumulate(rows, axis=0), axis=0)
    return latest


def _fills(log: EpisodeLog, rows: NDArray[np.int64]) -> Fills:
    trades = log.trades
    step = np.searchsorted(rows, trades.row, "left") - 1
    return Fills(
        step=step.astype(np.int64), asset=trades.asset, units=trades.units, price=trades.price
    )
