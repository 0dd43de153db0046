"""Holding a portfolio, judged by its Sharpe ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData, Windows, simulate_regimes
from sekai.envs.multi_portfolio_config import MultiPortfolioConfig
from sekai.envs.portfolio_benchmark import Benchmark
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_log import COST_KINDS, EpisodeLog
from sekai.envs.portfolio_panel import features_of
from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.tasks.task import Record, Task
from sekai.spaces import MultiDiscrete, Simplex
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["PortfolioTask", "config_of", "fills_of", "reconfigured"]

Floats = NDArray[np.float64]


class PortfolioTask(Task):
    """Equity, weights, costs and trades come from the env's own books."""

    name = "portfolio"
    headline = "sharpe"
    baselines = (
        "equal_weight", "buy_and_hold", "minimum_variance", "risk_parity", "momentum", "random",
    )  # fmt: skip

    def __init__(self, arena: Arena) -> None:
        super().__init__(_with_data(arena))
        self._data: MarketData | None = None
        self._marks: Floats | None = None
        self._market: Floats | None = None
        self._panel: FeaturePanel | None = None

    def config(self) -> PortfolioConfig | None:
        """How episodes are cut and traded; None where nobody knows."""
        return config_of(self.arena)

    def recorded(self) -> Arena:
        """The arena with logs of trades and weights."""
        return self.prepared(reconfigured(self.arena, record=True))

    def prepared(self, arena: Arena) -> Arena:
        """The same arena with features computed once for all who play there."""
        config, options = self.config(), arena.options
        if config is None or options is None or config.stream or config.slots:
            return arena
        features = options.get("features")
        if isinstance(features, (FeaturePanel, Windows)):
            return arena
        if self._panel is None:
            self._panel = features_of(options["data"], features)[0]
        return arena.with_options(features=self._panel)

    def with_costs(self, multiple: float) -> Arena | None:
        """The same data and accounts, with all rates of costs multiplied."""
        config = self.config()
        if config is None:
            return None
        has_volume = "volume" in (self.arena.options or {})["data"].fields
        costs = config.costs.times(multiple, has_volume)
        return self.prepared(reconfigured(self.arena, costs=costs))

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
        found = self._data_of(vec)
        if found is not self._data:
            self._data, self._marks, self._market = found, None, None
        self._take(vec)
        return {}

    def _data_of(self, vec: VecEnv) -> MarketData | None:
        inner = vec.unwrapped
        batch = getattr(inner, "batch", None)
        if batch is not None:
            found: MarketData | None = getattr(batch, "data", None)
            return found
        envs = getattr(inner, "envs", None)
        return None if not envs else getattr(envs[0].unwrapped, "data", None)

    def end(self, vec: VecEnv) -> Mapping[int, Any]:
        """The log of the first episode in each env."""
        return self._take(vec)

    def _take(self, vec: VecEnv) -> dict[int, EpisodeLog]:
        batch = getattr(vec.unwrapped, "batch", None)
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
            fills=None if log is None or rows is None else fills_of(log, rows),
        )

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """What is held already; cash where a layer hides it, since nobody waits but at first."""
        space = vec.action_space
        if isinstance(space, MultiDiscrete):
            return np.ones((vec.num_envs, *space.shape), space.dtype)
        if isinstance(moment.observations, dict) and "weights" in moment.observations:
            return moment.observations["weights"].astype(np.float64)
        if not isinstance(space, Simplex):
            return super().idle(vec, moment)
        cash = np.zeros((vec.num_envs, *space.shape))
        cash[:, -1] = 1.0
        return cash

    def benchmark(self, episode: Episode) -> Floats | None:
        """The returns of what the env compares with."""
        if self._data is None or episode.times is None:
            return None
        if self._market is None:
            config = self.config()
            name = "equal_weight" if config is None else config.benchmark
            returns, _ = Benchmark(name, self._data).returns(self._data)
            self._market = np.append(1.0, np.cumprod(1.0 + returns))[1:]
        rows = np.searchsorted(self._data.times, episode.times)
        levels = self._market[rows]
        found: Floats = levels[1:] / levels[:-1] - 1.0
        return found


def config_of(arena: Arena) -> PortfolioConfig | None:
    """How episodes are cut and traded there; None where nobody knows."""
    options = arena.options
    if options is None:
        return None
    if options.get("config") is not None:
        given: PortfolioConfig = options["config"]
        return given
    kind = MultiPortfolioConfig if arena.has_team else PortfolioConfig
    known = kind.__dataclass_fields__
    return kind(**{name: options[name] for name in known if name in options})


def reconfigured(arena: Arena, **changes: Any) -> Arena:
    """The arena with some fields of the config changed; as it is where nobody knows them."""
    config = config_of(arena)
    if config is None or arena.options is None:
        return arena
    if arena.options.get("config") is not None:
        return arena.with_options(config=replace(config, **changes))
    return arena.with_options(**changes)


def _with_data(arena: Arena) -> Arena:
    """The arena with the data that it would make for itself, so that it is made once."""
    if arena.options is None or arena.options.get("data") is not None:
        return arena
    return arena.with_options(data=simulate_regimes())


def _records(batch: Any) -> bool:
    config = getattr(batch, "config", None)
    return bool(getattr(config, "record", False))


def _carried(levels: Floats) -> Floats:
    rows = np.where(np.isfinite(levels), np.arange(len(levels))[:, None], 0)
    latest: Floats = np.take_along_axis(levels, np.maximum.accumulate(rows, axis=0), axis=0)
    return latest


def fills_of(log: EpisodeLog, rows: NDArray[np.int64]) -> Fills:
    """The trades of a log, by the step of an episode that went through these rows."""
    trades = log.trades
    step = np.searchsorted(rows, trades.row, "left") - 1
    return Fills(
        step=step.astype(np.int64), asset=trades.asset, units=trades.units, price=trades.price
    )
