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
from sekai.evaluation.evaluation import CapCheck, Episode, EpisodeFills
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

CAP_TOLERANCE = 1e-6
"""Excess over a cap that counts as rounding."""


class Mandate:
    """Limits of a portfolio, applied by the projection of the env.

    Args:
        settings: settings of `Constraints` for the Rust core; {} without limits.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._limits = {name: value for name, value in settings.items() if name != "turnover"}
        cap = settings.get("turnover")
        self.turnover = math.inf if cap is None else float(cap)

    def allowed(self, wanted: Floats, held: Floats, movable: NDArray[np.bool_]) -> Floats:
        """Nearest weights within all limits but that of turnover."""
        if not self._limits:
            return wanted
        return project_weights(wanted, held, movable, **self._limits).weights


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

    def cap_checks(self, episodes: Sequence[Episode]) -> list[CapCheck]:
        """Largest weight and gross exposure at decisions and after drift, against their caps."""
        config, data = self.config(), self._data
        known = [
            episode
            for episode in episodes
            if episode.weights is not None and episode.times is not None
        ]
        if config is None or data is None or not known:
            return []
        settings = config.constraints.settings(data.assets, data.sectors, config.account)
        ordered = np.concatenate([self._ordered(episode, settings) for episode in known])
        drifted = np.concatenate([_held(episode)[1:] for episode in known])
        uppers, gross = np.array(settings["upper"]), settings["leverage"]
        return [
            _cap_check("largest_weight", uppers, np.abs(ordered), np.abs(drifted)),
            _cap_check(
                "gross_exposure",
                np.array([1.0 if gross is None else gross]),
                np.abs(ordered).sum(axis=1, keepdims=True),
                np.abs(drifted).sum(axis=1, keepdims=True),
            ),
        ]

    def _ordered(self, episode: Episode, settings: Mapping[str, Any]) -> Floats:
        """Weights of the assets that the mandate allowed at each decision."""
        assert self._data is not None
        assert episode.times is not None
        held = _with_cash(_held(episode)[:-1])
        wanted, config = episode.actions, self.config()
        if config is not None and config.action == "tilts":
            wanted = _with_cash(held[:, :-1] + config.tilt * (episode.actions - 1.0))
        rows = np.searchsorted(self._data.times, episode.times[:-1])
        allowed = project_weights(wanted, held, self._data.tradable[rows], **settings).weights
        ordered: Floats = allowed[:, :-1]
        return ordered

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

    def cap_checks(self, episodes: Sequence[Episode]) -> list[CapCheck]:
        """Return nothing: caps are those of each agent, not of the team."""
        return []

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


def _held(episode: Episode) -> Floats:
    """Weights of the assets at the start, which is all cash, and after each step."""
    assert episode.weights is not None
    assets = episode.weights[:, :-1]
    return np.vstack([np.zeros((1, assets.shape[1])), assets])


def _with_cash(weights: Floats) -> Floats:
    return np.column_stack([weights, 1.0 - weights.sum(axis=1)])


def _cap_check(measure: str, caps: Floats, ordered: Floats, drifted: Floats) -> CapCheck:
    """Compare exposures, rows by assets, with the cap of each asset."""
    return CapCheck(
        measure=measure,
        cap=float(caps.max()),
        at_decision=float(ordered.max(initial=0.0)),
        after_drift=float(drifted.max(initial=0.0)),
        rows_above_at_decision=int((ordered > caps + CAP_TOLERANCE).any(axis=1).sum()),
        rows_above_after_drift=int((drifted > caps + CAP_TOLERANCE).any(axis=1).sum()),
        rows=len(drifted),
    )


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
