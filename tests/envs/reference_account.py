"""Reference account in plain Python: positions, costs, orders and rewards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs.portfolio.config import AgentConfig, PortfolioConfig
from sekai.market import Constraints, Costs, MarginAccount, project_weights
from tests.envs.reference_market import ReferenceMarket

Floats = NDArray[np.float64]
KINDS = (
    "commission", "fixed", "per_share", "spread", "impact", "permanent_impact", "transient_impact",
    "borrow", "financing", "delisting",
)  # fmt: skip


class ReferenceAccount:
    """An account in the middle of an episode."""

    def __init__(self, agent: AgentConfig, data: MarketData, in_units: bool = False) -> None:
        self.agent = agent
        self.in_units = in_units
        """Whether orders are units to trade, and not weights."""
        self.is_margin = isinstance(agent.account, MarginAccount)
        self.leverage = agent.account.leverage
        self.mandate = mandate_of(agent.constraints, data, self.is_margin, self.leverage)
        assets = len(data.assets)
        self.cash = self.equity = self.peak = agent.initial_cash
        self.units = np.zeros(assets)
        self.weights = np.append(np.zeros(assets), 1.0)
        self.orders: dict[int, Floats] = {}
        self.carried = np.zeros(assets)
        self.is_called, self.is_alive = False, True
        self.mean = self.variance = self.largest_reward = 0.0
        self.begin_step()

    def begin_step(self) -> None:
        """Reset costs, turnover and rewards of the step."""
        self.paid = dict.fromkeys(KINDS, 0.0)
        self.turnover = self.reward = self.profit = 0.0
        self.refused = self.waived = self.delisted = 0.0
        self.was_ruined = False
        self.rewarded_cost = self.rewarded_turnover = 0.0

    def owe(self, kind: str, amount: float) -> None:
        """Charge involuntary costs; a cash account pays at most its cash."""
        there = amount if self.is_margin else min(amount, max(self.cash, 0.0))
        self.waived += amount - there
        self.pay(kind, there)

    def pay(self, kind: str, amount: float) -> None:
        self.cash -= amount
        self.paid[kind] += amount

    def decide(
        self, action: Floats, due: int, movable: NDArray[np.bool_], removed: set[int], tilt: float
    ) -> None:
        """Project target weights and submit them as orders."""
        wanted = action
        if tilt:
            assets = self.weights[:-1] + tilt * (action - 1.0)
            wanted = np.append(assets, 1.0 - assets.sum())
        held, can_move = self.weights.copy(), movable.copy()
        for asset in removed:
            held[-1] += held[asset]
            held[asset], can_move[asset] = 0.0, False
        projected = project_weights(wanted, held, can_move, **self.mandate)
        self.compromise = float(projected.compromise)
        order = projected.weights[:-1].copy()
        order[np.abs(order) <= 1e-12] = 0.0
        order[~movable & ~np.isin(np.arange(len(order)), list(removed))] = np.nan
        self.orders[due] = order

    def size(self, row: int, due: int, marks: Floats, smallest: float, removed: set[int]) -> None:
        """Turn the weights that are due in a row into units, at prices that are known by now."""
        order = self.orders[due]
        for asset in np.flatnonzero(~np.isnan(order)):
            closes, target = order[asset] == 0.0, order[asset] * self.equity / marks[asset]
            before = [units[asset] for row, units in self.orders.items() if row < due]
            coming = float(np.nansum(before))
            if np.isnan(self.orders.get(row + 1, {asset: np.nan})[asset]):
                # Nothing in the next row takes the place of what is carried.
                coming += self.carried[asset]
            change = target - self.units[asset] - coming
            if asset in removed:
                change = self.reducing(int(asset), change)
            is_small = abs(change) * marks[asset] < max(smallest - 1e-12, 0.0) * self.equity
            is_nothing = abs(change) * marks[asset] <= 1e-12 * self.equity
            order[asset] = 0.0 if is_small and not closes else change
            if coming != 0.0 and (is_nothing or (is_small and not closes)):
                # What is on its way is enough, and another order would take its place.
                order[asset] = np.nan

    def reducing(self, asset: int, change: float) -> float:
        """Closing part of a change: towards zero, and not beyond."""
        held = self.units[asset]
        if held == 0.0 or np.sign(change) == np.sign(held):
            return 0.0
        return float(np.sign(change) * min(abs(change), abs(held)))

    def take_out(self, asset: int) -> None:
        """Give up orders that would add to a position; weights become sales of all of it."""
        self.carried[asset] = self.reducing(asset, self.carried[asset])
        if not self.in_units:
            self.void(asset)
            return
        for order in self.orders.values():
            if not np.isnan(order[asset]) and self.reducing(asset, order[asset]) == 0.0:
                order[asset] = np.nan

    def void(self, asset: int) -> None:
        """Cancel pending orders in an asset."""
        for order in self.orders.values():
            order[asset] = np.nan if np.isnan(order[asset]) else 0.0

    def accrue(self, market: ReferenceMarket, row: int, costs: Costs, borrow: Floats) -> None:
        """Pay lenders for the days since the last row."""
        year = market.days[row] / 365.0
        values = self.units * market.marks[row - 1]
        shorts = float(-values[values < 0].sum())
        cash, owed = self.cash, float(np.maximum(-values, 0.0) @ borrow) * year
        self.owe("borrow", owed)
        after_borrow = cash - owed
        if after_borrow < 0:
            self.owe("financing", -after_borrow * costs.financing * year)
        else:
            own = max(after_borrow - shorts, 0.0)
            self.pay("financing", -own * costs.interest * year)

    def settle_delisted(self, market: ReferenceMarket, row: int, costs: Costs) -> None:
        """Take what an asset that is gone was worth, less the loss; no order in it stands."""
        for asset in np.flatnonzero(~market.data.listed[row]):
            value = self.units[asset] * market.marks[row - 1, asset]
            self.cash += value
            self.units[asset] = self.carried[asset] = 0.0
            if self.in_units:
                self.void(int(asset))
            self.delisted += abs(value)
            self.owe("delisting", abs(value) * costs.delisting)

    def mark(self, market: ReferenceMarket, row: int) -> None:
        """Value the account at the close, and be rewarded for the row."""
        before, values = self.equity, self.units * market.marks[row]
        self.gross, self.net = float(np.abs(values).sum()), float(values.sum())
        self.equity = self.cash + self.net
        self.weights = np.append(values, self.cash) / self.equity if self.equity > 0 else (
            np.zeros(len(values) + 1)
        )  # fmt: skip
        if isinstance(self.agent.account, MarginAccount):
            limit = (self.agent.account.maintenance - 1e-12) * self.gross
            self.is_called = self.equity < limit
        self._earn(before, market.benchmark[row])
        # What rounding leaves of nothing is nothing.
        self.was_ruined = self.equity <= (self.agent.ruin + 1e-12) * self.agent.initial_cash
        self.is_alive = not self.was_ruined

    def _earn(self, before: float, benchmark: float) -> None:
        agent, after = self.agent, self.equity
        gain = after / before - 1.0
        cost, turnover = sum(self.paid.values()), self.turnover
        peak = max(self.peak, after)
        rate, apart = agent.reward_memory, gain - self.mean
        self.mean += rate * apart
        self.variance = (1 - rate) * (self.variance + rate * apart**2)
        least = 1e-12 * before
        worth = {
            "return": gain,
            "log_return": math.log(max(after, least) / before),
            "profit": after - before,
            "mean_variance": gain - agent.risk_aversion * gain**2 / 2,
            "drawdown_penalty": after / peak - before / self.peak,
            "volatility_penalty": -math.sqrt(self.variance),
            "turnover_penalty": -(turnover - self.rewarded_turnover),
            "cost_penalty": -(cost - self.rewarded_cost) / before,
            "benchmark_relative": gain - benchmark,
        }
        assert isinstance(agent.reward, tuple)
        self.reward += sum(weight * worth[term] for term, weight in agent.reward)
        self.largest_reward = max(self.largest_reward, abs(self.reward))
        self.profit += after - before
        self.rewarded_cost, self.rewarded_turnover, self.peak = cost, turnover, peak

    def reported(self, row: int) -> dict[str, float]:
        """Info of the step."""
        return {
            "time_index": row, "equity": self.equity, "cash": self.cash, "pnl": self.profit,
            "cost": sum(self.paid.values()), "turnover": self.turnover, "gross": self.gross,
            "net": self.net, "drawdown": 1.0 - self.equity / max(self.peak, self.equity),
            "margin_call": float(self.is_called), **self.paid,
            "refused": self.refused, "waived": self.waived, "delisted": self.delisted,
            "dividends": 0.0, "compromise": self.compromise,
        }  # fmt: skip


def mandate_of(
    given: Constraints, data: MarketData, is_margin: bool, account_leverage: float
) -> dict[str, Any]:
    """A mandate as the projection takes it."""
    assert not isinstance(given.max_weight, dict)
    assert given.sector_caps is None or isinstance(given.sector_caps, float)
    far = 1e6
    cap = account_leverage if given.max_weight is None else given.max_weight
    leverage = given.leverage
    if is_margin:
        leverage = account_leverage if leverage is None else min(leverage, account_leverage)
    places = {name: place for place, name in enumerate(sorted(set(data.sectors.values())))}
    of_assets = [places[data.sectors[n]] if n in data.sectors else None for n in data.assets]
    has_caps = given.sector_caps is not None
    return {
        "lower": -cap if given.long_short else 0.0,  # type: ignore[operator]
        "upper": cap,
        "cash_lower": given.min_cash if given.min_cash is not None else -far * is_margin,
        "cash_upper": far if given.max_cash is None else given.max_cash,
        "leverage": min(leverage, 1.0) if leverage is not None and not is_margin else leverage,
        "sectors": of_assets if has_caps else None,
        "sector_caps": [given.sector_caps] * len(places) if has_caps else None,
        "turnover": given.turnover,
        "net_exposure": given.net_exposure,
        "betas": given.betas and [given.betas.get(name, 1.0) for name in data.assets],
        "beta_exposure": given.beta_exposure,
        "untradable": given.untradable,
        "min_weight": given.min_weight,
        "max_names": given.max_names,
        "tolerance": given.tolerance,
    }


def first_row(config: PortfolioConfig, market: ReferenceMarket) -> tuple[int, int]:
    """The row that an episode from a fixed row begins with, and the one that it ends with."""
    assert isinstance(config.starts, int)
    end = market.rows - 1
    length = end if config.episode_rows is None else min(config.episode_rows, end)
    deciding = [row for row in range(config.starts, end) if market.decides[row]]
    first = deciding[0] if deciding else end - 1
    return first, min(max(config.starts + length, first + 1), end)
