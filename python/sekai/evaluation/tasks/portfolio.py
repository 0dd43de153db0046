"""Portfolio tasks: Sharpe ratio of one account, or of the accounts of several agents."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import FeaturePanel, MarketData, Windows, simulate_regimes
from sekai.data.corporate_actions import adjusted
from sekai.envs.portfolio.config import MultiPortfolioConfig, PortfolioConfig
from sekai.envs.portfolio.log import COST_KINDS, EpisodeLog
from sekai.envs.portfolio.panel import Benchmark, compute_features
from sekai.evaluation.env_source import TeamVecEnv, agent_infos
from sekai.evaluation.evaluation import CapCheck, Episode, EpisodeFills, Flag
from sekai.evaluation.tasks import Task, config_of, reconfigured
from sekai.market import project_weights
from sekai.spaces import MultiDiscrete, Simplex
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.env_source import EnvSource
    from sekai.evaluation.policy import StepContext
    from sekai.evaluation.recorder import RecordedEpisode

__all__ = [
    "Mandate",
    "MultiPortfolioTask",
    "PortfolioTask",
    "digest_of_judged_rows",
    "portfolio_config",
]

Floats = NDArray[np.float64]

TRADED_ROWS = 60
"""Rows of traded value that rank the names of baselines."""

CAP_MEASURES = {
    "weight": "largest_weight",
    "sector": "sector_exposure",
    "gross": "gross_exposure",
}
"""Measure of a `CapCheck` of each kind of exposure in a log."""


class Mandate:
    """Limits of a portfolio, applied by the projection of the env.

    Args:
        settings: settings of `Constraints` for the Rust core; {} without limits.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._limits = {name: value for name, value in settings.items() if name != "turnover"}
        cap = settings.get("turnover")
        self.turnover = math.inf if cap is None else float(cap)

    @property
    def most_names(self) -> float:
        """Largest number of equal positions whose weights sum to at most 1; infinite for no limit.

        From `max_names` and `min_weight`.
        """
        names = self._limits.get("max_names") or math.inf
        least = self._limits.get("min_weight", 0.0)
        return names if least == 0.0 else max(1.0, min(names, math.floor(1.0 / least + 1e-9)))

    def allowed(
        self,
        wanted: Floats,
        held: Floats,
        movable: NDArray[np.bool_],
        order: NDArray[np.int64] | None = None,
    ) -> Floats:
        """Nearest weights within all limits but that of turnover.

        Args:
            wanted: target weights, cash last; a row for each env.
            held: current weights, likewise.
            movable: mask of the assets that can be traded.
            order: assets of each row in the order in which names are preferred to others of the
                same weight; None for that of the columns.
        """
        if not self._limits:
            return wanted
        if order is None:
            return project_weights(wanted, held, movable, **self._limits).weights
        allowed = np.empty_like(wanted)
        for row, assets in enumerate(order):
            columns = np.append(assets, -1)
            ranked = self._ranked(assets)
            weights = wanted[row, columns], held[row, columns], movable[row, assets]
            allowed[row, columns] = project_weights(*weights, **ranked).weights
        return allowed

    def _ranked(self, assets: NDArray[np.int64]) -> dict[str, Any]:
        """Limits with the assets in another order."""
        columns = {name: self._limits[name] for name in ("lower", "upper", "sectors", "betas")}
        return self._limits | {
            name: [values[asset] for asset in assets] for name, values in columns.items() if values
        }


class PortfolioTask(Task):
    """`Portfolio-v0`: ranked by the Sharpe ratio; weights, costs and fills come from env logs."""

    name = "portfolio"
    headline = "sharpe"
    baselines = (
        "equal_weight",
        "buy_and_hold",
        "minimum_variance",
        "risk_parity",
        "momentum",
        "random",
    )

    def __init__(self, source: EnvSource) -> None:
        super().__init__(_with_data(source))
        self._data: MarketData | None = None
        self._marks: Floats | None = None
        self._adjusted_marks: Floats | None = None
        self._benchmark_levels: Floats | None = None
        self._panel: FeaturePanel | None = None

    def config(self) -> PortfolioConfig | None:
        """Config of the envs; None where it is unknown."""
        return portfolio_config(self.source)

    def mandate(self, agent: str | None = None) -> Mandate:
        """Constraints on weights, of one agent of several; unlimited where they are unknown."""
        config, data = self.config(), self._data
        if config is None or data is None:
            return Mandate({})
        member = config if agent is None else config.members[agent]
        return Mandate(member.constraints.settings(data.assets, data.sectors, member.account))

    def flags(self) -> list[Flag]:
        """Note that limits on positions leave baselines a choice of names."""
        config, data = self.config(), self._data
        if config is None or data is None:
            return []
        agents = config.members if isinstance(config, MultiPortfolioConfig) else [None]
        most = min(self.mandate(agent).most_names for agent in agents)
        if most >= len(data.assets):
            return []
        message = (
            f"the mandate allows {most:.0f} of {len(data.assets)} names: equal_weight and "
            f"buy_and_hold hold those with the largest traded value in the {TRADED_ROWS} rows up "
            "to the start of an episode, ties by name"
        )
        return [Flag(name="baseline_names", level="warning", message=message)]

    def names_by_traded_value(self, row: int) -> NDArray[np.int64]:
        """Assets by traded value in the rows up to this one, largest first, ties by name."""
        assert self._data is not None, "traded values need the data of an env that has begun"
        traded = np.zeros(len(self._data.assets))
        if "volume" in self._data.fields:
            rows = slice(max(0, row + 1 - TRADED_ROWS), row + 1)
            values = self._data.field("close")[rows] * self._data.field("volume")[rows]
            traded = np.nansum(values, axis=0)
        return np.lexsort((np.array(self._data.assets), -traded))

    def recording_source(self) -> EnvSource:
        """Return the source with logs of trades and weights."""
        return self.prepared(reconfigured(self.source, record=True))

    def prepared(self, source: EnvSource) -> EnvSource:
        """Return the source with features computed once for all policies."""
        config, options = self.config(), source.options
        if config is None or options is None or config.stream or config.slots:
            return source
        features = options.get("features")
        if isinstance(features, (FeaturePanel, Windows)):
            return source
        if self._panel is None:
            self._panel = compute_features(options["data"], features)[0]
        return source.with_options(features=self._panel)

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with all cost rates scaled."""
        config = self.config()
        if config is None:
            return None
        has_volume = "volume" in (self.source.options or {})["data"].fields
        costs = config.costs.times(multiple, has_volume)
        return self.prepared(reconfigured(self.source, costs=costs))

    @property
    def data_digest(self) -> str:
        """Digest of the traded panel."""
        data = (self.source.options or {}).get("data", self._data)
        return "" if data is None else data.digest

    @property
    def judged_digest(self) -> str:
        """Digest of the rows after the warm-up, which depends on features and lookback."""
        data = (self.source.options or {}).get("data", self._data)
        return self.source.name if data is None else digest_of_judged_rows([data])

    @property
    def times(self) -> NDArray[np.datetime64] | None:
        """Timestamps of all rows."""
        return None if self._data is None else self._data.times

    @property
    def data(self) -> MarketData | None:
        """Traded panel, known after the first `begin`."""
        return self._data

    @property
    def marks(self) -> Floats:
        """Forward-filled close of each asset by row; NaN before the first."""
        if self._marks is None:
            assert self._data is not None, "marks need the data of an env that has begun"
            self._marks = _forward_filled(self._data.field("close"))
        return self._marks

    @property
    def adjusted_marks(self) -> Floats:
        """As `marks`, adjusted for dividends and splits point in time."""
        if self._adjusted_marks is None:
            assert self._data is not None, "marks need the data of an env that has begun"
            panel = adjusted(self._data)
            same = panel is self._data
            self._adjusted_marks = self.marks if same else _forward_filled(panel.field("close"))
        return self._adjusted_marks

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Find the data and discard earlier logs."""
        data = self._data_of(vec)
        if data is not self._data:
            self._data, self._marks, self._benchmark_levels = data, None, None
            self._adjusted_marks = None
        self._take_logs(vec)
        return {}

    def _data_of(self, vec: VecEnv) -> MarketData | None:
        inner = vec.unwrapped
        batch = getattr(inner, "batch", None)
        if batch is not None:
            data: MarketData | None = getattr(batch, "data", None)
            return data
        envs = getattr(inner, "envs", None)
        return None if not envs else getattr(envs[0].unwrapped, "data", None)

    def end(self, vec: VecEnv) -> Mapping[int, Any]:
        """Log of the first episode in each env."""
        return self._take_logs(vec)

    def _take_logs(self, vec: VecEnv) -> dict[int, EpisodeLog]:
        batch = self._recording_batch(vec)
        if batch is None or self._data is None:
            return {}
        logs: dict[int, EpisodeLog] = {}
        for log in EpisodeLog.take(batch):
            if len(log.steps):
                logs.setdefault(log.env, log)
        return logs

    def _recording_batch(self, vec: VecEnv) -> Any:
        batch = getattr(vec.unwrapped, "batch", None)
        return batch if getattr(getattr(batch, "config", None), "record", False) else None

    def episode(self, recorded: RecordedEpisode, start: Any, log: EpisodeLog | None) -> Episode:
        """Account by step."""
        infos, data = recorded.infos, self._data
        rows = infos["time_index"].astype(np.int64) if "time_index" in infos else None
        return Episode(
            seed=recorded.seed,
            rewards=recorded.rewards,
            equity=infos.get("equity", np.zeros(0)),
            times=data.times[rows] if data is not None and rows is not None else None,
            assets=() if data is None else data.assets,
            actions=recorded.actions,
            weights=None if log is None else log.steps.weights,
            prices=self.marks[rows] if data is not None and rows is not None else None,
            turnover=infos["turnover"][1:] if "turnover" in infos else None,
            costs={kind: infos[kind][1:] for kind in COST_KINDS if kind in infos},
            fills=None if log is None or rows is None else _fills(log, rows),
            benchmark=None if data is None or rows is None else self._benchmark_returns(rows),
            compromise=infos["compromise"][1:].astype(np.int64) if "compromise" in infos else None,
            caps=_cap_checks(log),
        )

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return the held weights; all cash where a wrapper hides them."""
        space = vec.action_space
        if isinstance(space, MultiDiscrete):
            return np.ones((vec.num_envs, *space.shape), space.dtype)
        if isinstance(step.observations, dict) and "weights" in step.observations:
            return step.observations["weights"].astype(np.float64)
        if not isinstance(space, Simplex):
            return super().idle(vec, step)
        cash = np.zeros((vec.num_envs, *space.shape))
        cash[:, -1] = 1.0
        return cash

    @property
    def benchmark(self) -> str:
        """Benchmark of the env."""
        config = self.config()
        return "equal_weight" if config is None else config.benchmark

    def _benchmark_returns(self, rows: NDArray[np.int64]) -> Floats:
        """Returns of the benchmark between rows."""
        assert self._data is not None, "the benchmark needs the data of an env that has begun"
        if self._benchmark_levels is None:
            returns, _ = Benchmark(self.benchmark, self._data).returns(self._data)
            self._benchmark_levels = np.append(1.0, np.cumprod(1.0 + returns))[1:]
        levels = self._benchmark_levels[rows]
        returns_by_step: Floats = levels[1:] / levels[:-1] - 1.0
        return returns_by_step


class MultiPortfolioTask(PortfolioTask):
    """`MultiPortfolio-v0`: the account of a team is the sum of its agents' accounts."""

    def _data_of(self, vec: VecEnv) -> MarketData | None:
        data: MarketData | None = (self.source.options or {}).get("data")
        return data

    def begin(self, vec: VecEnv) -> Mapping[int, Any]:
        """Find the data, and start a new log."""
        batch = self._recording_batch(vec)
        if batch is not None:
            batch.keep_log(True)
        return super().begin(vec)

    def _recording_batch(self, vec: VecEnv) -> Any:
        inner = vec.inner.vec if isinstance(vec, TeamVecEnv) else vec
        return getattr(inner, "batch", None)

    def episode(self, recorded: RecordedEpisode, start: Any, log: EpisodeLog | None) -> Episode:
        """Account of the team and of each agent, by step."""
        agents = list(dict.fromkeys(key.partition("/")[0] for key in recorded.infos))
        infos = {agent: agent_infos(agent, recorded.infos) for agent in agents}
        members = {agent: _forward_filled(own["equity"]) for agent, own in infos.items()}
        equity: Floats = np.sum(list(members.values()), axis=0)
        data = self._data
        # Infos of agents that have left are NaN.
        rows = np.nanmax([own["time_index"] for own in infos.values()], axis=0).astype(np.int64)
        costs = {
            kind: np.nansum([own[kind] for own in infos.values()], axis=0)[1:]
            for kind in COST_KINDS
        }
        values = [own["turnover"][1:] * members[agent][:-1] for agent, own in infos.items()]
        traded = np.nansum(values, axis=0)
        return Episode(
            seed=recorded.seed,
            rewards=recorded.rewards,
            equity=equity,
            times=None if data is None else data.times[rows],
            assets=() if data is None else data.assets,
            actions=recorded.actions,
            weights=None if log is None else _team_weights(log, list(members.values())),
            prices=None if data is None else self.marks[rows],
            turnover=np.divide(traded, equity[:-1], out=np.zeros(len(traded)), where=traded > 0),
            costs=costs,
            fills=None if log is None else _fills(log, rows),
            members=members,
            benchmark=None if data is None else self._benchmark_returns(rows),
            compromise=np.bitwise_or.reduce([_relaxed(own) for own in infos.values()]),
            caps=_cap_checks(log, agents),
        )


def portfolio_config(source: EnvSource) -> PortfolioConfig | None:
    """Config of the portfolio envs of a source; None where it is unknown."""
    if source.options is None:
        return None
    return config_of(MultiPortfolioConfig if source.is_multi_agent else PortfolioConfig, source)


def digest_of_judged_rows(panels: Sequence[MarketData]) -> str:
    """Digest of times, assets and closes after the warm-up rows of consecutive panels.

    Warm-up rows and other fields are inputs of a policy: policies that differ in them are judged
    on the same data.
    """
    names = sorted(panels[0].assets)
    order = [panels[0].asset(name) for name in names]
    times = np.concatenate([panel.times[panel.warm_up :] for panel in panels])
    closes = np.concatenate([panel.field("close")[panel.warm_up :, order] for panel in panels])
    # One bit pattern for all NaN.
    closes[np.isnan(closes)] = np.nan
    state = hashlib.sha256(repr((names, closes.shape)).encode())
    state.update(times.astype("datetime64[ns]").astype("<i8").tobytes())
    state.update(np.ascontiguousarray(closes, "<f8").tobytes())
    return state.hexdigest()


def _with_data(source: EnvSource) -> EnvSource:
    """Add the env's default data, so that all envs share one panel."""
    if source.options is None or source.options.get("data") is not None:
        return source
    return source.with_options(data=simulate_regimes())


def _cap_checks(log: EpisodeLog | None, agents: Sequence[str] = ("",)) -> list[CapCheck]:
    """Exposures of each agent of a log against its caps."""
    if log is None:
        return []
    return [check for index, agent in enumerate(agents) for check in _own_checks(log, index, agent)]


def _own_checks(log: EpisodeLog, index: int, agent: str) -> list[CapCheck]:
    own = log.of_agent(index)
    exposures, (limits,) = own.exposures(), own.limits
    caps = {
        "weight": max(limits.max_weight),
        "sector": max(filter(math.isfinite, limits.sector_caps), default=math.inf),
        "gross": limits.leverage,
    }
    return [
        CapCheck(
            measure=measure,
            cap=caps[kind],
            at_decision=float(getattr(exposures.at_decision, kind).max(initial=0.0)),
            after_drift=float(getattr(exposures.after_drift, kind).max(initial=0.0)),
            rows_above_at_decision=exposures.at_decision.rows_above_cap[kind],
            rows_above_after_drift=exposures.after_drift.rows_above_cap[kind],
            rows=len(own.steps),
            agent=agent,
        )
        for kind, measure in CAP_MEASURES.items()
        if math.isfinite(caps[kind])
    ]


def _relaxed(infos: Mapping[str, Floats]) -> NDArray[np.int64]:
    """Bits of `Compromise` by step; 0 once the agent has left."""
    return np.nan_to_num(infos["compromise"][1:]).astype(np.int64)


def _forward_filled(levels: Floats) -> Floats:
    rows = np.arange(len(levels)).reshape(-1, *[1] * (levels.ndim - 1))
    known = np.maximum.accumulate(np.where(np.isfinite(levels), rows, 0), axis=0)
    filled: Floats = np.take_along_axis(levels, known, axis=0)
    return filled


def _fills(log: EpisodeLog, rows: NDArray[np.int64]) -> EpisodeFills:
    """Fills of a log by step, for an episode over these rows."""
    trades = log.trades
    step = np.searchsorted(rows, trades.row, "left") - 1
    return EpisodeFills(
        step=step.astype(np.int64), asset=trades.asset, units=trades.units, price=trades.price
    )


def _team_weights(log: EpisodeLog, equity: list[Floats]) -> Floats:
    """Weights of assets and cash in the sum of all accounts, after each step."""
    steps, total = len(equity[0]) - 1, np.sum(equity, axis=0)[1:, None]
    held = np.zeros((steps, len(log.assets) + 1))
    for index, own in enumerate(equity):
        weights = log.of_agent(index).steps.weights
        # A closed account is cash.
        held[: len(weights)] += weights * own[1 : len(weights) + 1, None]
        held[len(weights) :, -1] += own[len(weights) + 1 :]
    shares: Floats = np.divide(held, total, out=np.zeros_like(held), where=total > 0)
    return shares
