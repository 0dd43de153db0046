"""Markets, mandates and actions for the tests of portfolios, and what episodes in them gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import PortfolioBatch, portfolio_names
from sekai.data import MarketData
from sekai.envs import Portfolio
from sekai.envs.portfolio.config import AgentConfig, PortfolioConfig
from sekai.envs.portfolio.panel import build_panel, compute_features
from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount
from sekai.market.costs import COST_KINDS

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEATURES = ("log_return",)
INFO = portfolio_names()[1]
LEAD = ("agent", "reward", "seconds", "refused", "waived")
"""Columns of a logged step in front of its info."""
KINDS = COST_KINDS
FREE = Costs(
    proportional=0.0, half_spread=0.0, impact=0.0, borrow=0.0, financing=0.0, delisting=0.0
)
"""Costs of zero."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Market, its agents, and their actions."""

    data: MarketData
    config: PortfolioConfig
    actions: Floats
    """Steps by the numbers of all agents' actions."""
    others: tuple[AgentConfig, ...] = ()
    """Agents beside the first, which the config describes."""
    shared_leverage: float | None = None
    reward_mode: str = "own"
    removals: Mapping[int, tuple[int, bool]] = field(default_factory=dict)
    """The asset that is taken out of the universe, or let in, before a step."""

    @property
    def agents(self) -> tuple[AgentConfig, ...]:
        return (self.config, *self.others)

    def batch(self, num_envs: int = 1, num_threads: int = 1) -> PortfolioBatch:
        data, config = self.data, self.config
        shown, _ = compute_features(data, FEATURES)
        panel = build_panel(data, shown, config.decisions, config.benchmark, open_ended=False)
        settings = json.loads(config.core_settings(data))
        settings["agents"] = [agent.settings(data) for agent in self.agents]
        settings["shared_leverage"] = self.shared_leverage
        settings["reward_mode"] = self.reward_mode
        return PortfolioBatch(panel, json.dumps(settings), num_envs, num_threads)


@dataclass(frozen=True)
class Episode:
    """Episode record: rows of steps by agents, and all fills."""

    agents: int
    table: Floats
    trades: Mapping[str, NDArray[Any]]
    terminated: bool
    truncated: bool

    def of(self, name: str, agent: int = 0) -> Floats:
        """A number of each step."""
        place = LEAD.index(name) if name in LEAD else len(LEAD) + INFO.index(name)
        column: Floats = self.table[agent :: self.agents, place]
        return column

    def weights(self, agent: int = 0) -> Floats:
        """Weights of assets and cash after each step."""
        rows: Floats = self.table[agent :: self.agents, len(LEAD) + len(INFO) :]
        return rows

    def fills(self, agent: int = 0) -> list[tuple[int, int, float, float, float]]:
        """Row, asset, units, price and rate of each fill of an agent."""
        mine = self.trades["agent"] == agent
        names = ("row", "asset", "units", "price", "rate")
        columns = [self.trades[name][mine].tolist() for name in names]
        return list(zip(*columns, strict=True))


def play(world: World, seed: int = 0) -> Episode:
    """Play an episode, until it ends or there are no more actions."""
    batch = world.batch()
    batch.keep_log(True)
    batch.reset_one(seed)
    result = None
    for step, action in enumerate(world.actions):
        if step in world.removals:
            batch.set_removed(0, *world.removals[step])
        result = batch.step_one(action)
        if result.done:
            break
    assert result is not None
    return logged(batch, len(world.agents), result, world.data.listed)


def logged(batch: PortfolioBatch, agents: int, result: Any, listed: Bools) -> Episode:
    """The one episode of a batch's log, without what delistings turned into cash."""
    (log,) = batch.take_log()
    names = ("row", "agent", "asset", "units", "price", "rate")
    fills = listed[log["row"].astype(int), log["asset"].astype(int)]
    trades = {name: log[name][fills] for name in names}
    return Episode(agents, log["steps"], trades, result.terminated, result.truncated)


def holdings(world: World, episode: Episode, agent: int = 0) -> tuple[Floats, Floats]:
    """Units before and after the fills of each row, by the fills and the panel alone."""
    before, after = np.zeros((2, *world.data.listed.shape))
    traded = np.zeros_like(before)
    for row, asset, units, _, _ in episode.fills(agent):
        traded[row, asset] = units
    for row in range(1, len(before)):
        before[row] = np.where(world.data.listed[row], after[row - 1], 0.0)
        after[row] = before[row] + traded[row]
    return before, after


def market_of(
    close: ArrayLike,
    open_: ArrayLike | None = None,
    volume: ArrayLike | None = None,
    days: int = 1,
    sectors: Mapping[str, str] | None = None,
    **masks: Any,
) -> MarketData:
    """Rows of daily bars; a row of prices alone is one asset."""
    closes = _columns(close)
    columns = {"open": closes if open_ is None else _columns(open_), "close": closes}
    if volume is not None:
        columns["volume"] = np.broadcast_to(_columns(volume), closes.shape)
    times = np.datetime64("2020-01-06", "ns") + np.arange(len(closes)) * np.timedelta64(days, "D")
    return MarketData(
        times, [f"A{place}" for place in range(closes.shape[1])], list(columns),
        np.stack(list(columns.values()), axis=2), sectors=sectors, **masks,
    )  # fmt: skip


def _columns(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    return array[:, None] if array.ndim == 1 else array


def invested(assets: int, cash: float = 0.0) -> Floats:
    """The same weight of every asset, and the rest cash."""
    return np.append(np.full(assets, (1 - cash) / assets), cash)


def settings(**given: Any) -> PortfolioConfig:
    """Short episodes from the first row on, shown by index; all of it can be given."""
    short: dict[str, Any] = {
        "lookback": 1, "observation": "index", "episode_rows": None, "starts": 0, "costs": FREE,
    }  # fmt: skip
    return PortfolioConfig(**{**short, **given})


def env_of(data: MarketData, **given: Any) -> Portfolio:
    """A single env with these settings."""
    return Portfolio(data, FEATURES, settings(**given))


def mandates(data: MarketData, account: Any) -> st.SearchStrategy[Constraints]:
    """Random feasible constraints on weights."""
    limits = st.sampled_from([None, None, 0.6, 1.0])
    # Zero weights are within all bounds, so that they can be met.
    beta: dict[str, Any] = {
        "betas": st.just({"A0": 0.5}),
        "beta_exposure": st.sampled_from([0.3, (-0.1, 0.6)]),
    }
    rules = {"min_weight": st.sampled_from([0.0, 0.1]), "max_names": st.sampled_from([None, 2])}
    extra = st.sampled_from([{}, {}, {}, beta, rules, {**beta, **rules}])
    return extra.flatmap(lambda more: _mandates(data, account, limits, more))


def _mandates(
    data: MarketData, account: Any, limits: st.SearchStrategy[float | None], more: dict[str, Any]
) -> st.SearchStrategy[Constraints]:
    return st.builds(
        Constraints,
        long_short=st.booleans() if isinstance(account, MarginAccount) else st.just(False),
        max_weight=st.sampled_from([None, 1.0, 0.5, 0.25]),
        leverage=limits if isinstance(account, CashAccount) else limits | st.just(1.5),
        sector_caps=st.sampled_from([None, 0.3, 0.7]) if data.sectors else st.none(),
        turnover=st.sampled_from([None, None, 0.1, 0.5]),
        min_cash=st.sampled_from([None, None, 0.1]),
        net_exposure=st.sampled_from([None, None, 0.7, (-0.2, 0.4)]),
        untradable=st.sampled_from(["cash", "assets"]),
        tolerance=st.sampled_from([0.0, 0.0, 0.02]),
        **more,
    )


accounts = st.just(CashAccount()) | st.builds(
    MarginAccount,
    leverage=st.sampled_from([1.0, 2.0, 4.0]),
    maintenance=st.sampled_from([0.0, 0.1, 0.25]),
)


def costs(has_volume: bool) -> st.SearchStrategy[Costs]:
    """All costs, each of them absent now and then."""
    return st.builds(
        Costs,
        proportional=st.sampled_from([0.0, 0.0005, 0.01]),
        fixed=st.sampled_from([0.0, 0.0, 3.0]),
        half_spread=st.sampled_from([0.0, 0.0005, 0.02]),
        impact=st.sampled_from([0.0, 0.5, 1.0, None]) if has_volume else st.none(),
        borrow=st.sampled_from([0.0, 0.01, 0.5]),
        financing=st.sampled_from([0.0, 0.05, 0.8]),
        interest=st.sampled_from([0.0, 0.04]),
        delisting=st.sampled_from([0.0, 0.3, 1.0]),
    )


def executions(has_volume: bool) -> st.SearchStrategy[Execution]:
    """All ways to fill orders."""
    return st.builds(
        Execution,
        fill=st.sampled_from(["next_open", "next_close"]),
        sizing=st.sampled_from(["fill", "decision"]),
        delay=st.integers(0, 3),
        participation=st.sampled_from([None, 0.01, 0.2, 1.0]) if has_volume else st.none(),
        unfilled=st.sampled_from(["drop", "carry"]),
        smallest_trade=st.sampled_from([1e-6, 1e-6, 0.02]),
    )


@st.composite
def markets(draw: st.DrawFn, max_assets: int = 6) -> MarketData:
    """Bars with jumps, halts, late and short lives, missing volumes and uneven stamps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = rows, assets = draw(st.integers(4, 36)), draw(st.integers(1, max_assets))
    volatility = draw(st.sampled_from([0.01, 0.05, 0.25]))
    start = rng.choice([0.7, 30.0, 2500.0], assets)
    close = start * np.exp(np.cumsum(rng.normal(0, volatility, shape), axis=0))
    columns = {"open": close * np.exp(rng.normal(0, volatility / 2, shape)), "close": close}
    if draw(st.booleans()):
        size = draw(st.sampled_from([10.0, 1e3, 1e6]))
        volume = size * rng.exponential(1.0, shape)
        volume[rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.9]))] = np.nan
        volume[rng.random(shape) < draw(st.sampled_from([0.0, 0.1]))] = 0.0
        columns["volume"] = volume
    listed, quoted, tradable = _masks(draw, rng, shape)
    values = np.stack(list(columns.values()), axis=2)
    gaps = rng.choice([1, 1, 1, 3, 5], rows).cumsum() * np.timedelta64(1, "D")
    names = [f"A{place}" for place in range(assets)]
    sectors = {name: f"S{place % 2}" for place, name in enumerate(names[1:])}
    return MarketData(
        np.datetime64("2020-01-06", "ns") + gaps, names, list(columns),
        np.where(quoted[:, :, None], values, np.nan),
        listed=listed, quoted=quoted, tradable=tradable,
        sectors=draw(st.sampled_from([{}, sectors])),
    )  # fmt: skip


def _masks(
    draw: st.DrawFn, rng: np.random.Generator, shape: tuple[int, int]
) -> tuple[Bools, Bools, Bools]:
    """Lives that begin late, end early or are interrupted; halts; and quotes without trade."""
    rows, assets = shape
    place = np.arange(rows)[:, None]
    listed = np.ones(shape, np.bool_)
    if draw(st.booleans()):
        born, gone = np.sort(rng.integers(-rows, 2 * rows, (2, assets)), axis=0)
        listed &= (place >= born) & (place < np.maximum(gone, born + 2))
    if draw(st.booleans()):
        paused = rng.integers(0, 2 * rows, assets)
        listed &= (place < paused) | (place >= paused + rng.integers(1, 5, assets))
    halts = draw(st.sampled_from([0.0, 0.1, 0.4]))
    quoted = listed & (rng.random(shape) >= halts)
    return listed, quoted, quoted & (rng.random(shape) >= halts / 2)


def wishes(seed: int, steps: int, agents: int, assets: int, tilts: bool) -> Floats:
    """Random actions: some that are allowed, some that are far from it, some all in one asset."""
    rng = np.random.default_rng(seed)
    if tilts:
        return rng.integers(0, 3, (steps, agents * assets)).astype(np.float64)
    shape = (steps, agents, assets + 1)
    simplex = rng.dirichlet(np.full(assets + 1, 0.5), shape[:2])
    wild = rng.normal(0, 2, shape)
    corner = np.eye(assets + 1)[rng.integers(0, assets + 1, shape[:2])]
    kind = rng.random((*shape[:2], 1))
    chosen = np.select([kind < 0.5, kind < 0.8], [simplex, wild], corner)
    return chosen.reshape(steps, -1)
