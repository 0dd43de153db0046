"""Reference portfolios in plain Python and NumPy: equity after each step.

Written from what the docs say of a step, one asset and one agent after the other, to hold against
the native rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.market import Costs
from tests.envs.portfolio_worlds import World
from tests.envs.reference_account import ReferenceAccount, first_row
from tests.envs.reference_market import ReferenceMarket

Floats = NDArray[np.float64]


@dataclass
class Told:
    """Infos of all agents after a step, and fills so far."""

    rewards: list[float]
    infos: list[dict[str, float]]
    weights: list[Floats]


@dataclass
class Reference:
    """An episode."""

    world: World
    steps: list[Told] = field(default_factory=list)
    fills: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    """Agent, row, asset, units and rate."""
    terminated: bool = False
    truncated: bool = False

    def __post_init__(self) -> None:
        world = self.world
        self.market = ReferenceMarket(world.data, world.config)
        in_units = world.config.execution.sizing == "decision"
        self.accounts = [ReferenceAccount(agent, world.data, in_units) for agent in world.agents]
        self.rates = rates_of(world.config.costs, world.data)
        self.removed: set[int] = set()
        self.row, self.last = first_row(world.config, self.market)

    def run(self) -> Reference:
        """Play all actions, or until the end."""
        for step, action in enumerate(self.world.actions):
            if step in self.world.removals:
                asset, is_out = self.world.removals[step]
                (self.removed.add if is_out else self.removed.discard)(asset)
                if is_out:
                    for account in self.accounts:
                        account.take_out(asset)
            self._step(action)
            if self.terminated or self.truncated:
                break
        return self

    def _step(self, action: Floats) -> None:
        config = self.world.config
        choices = np.split(action, len(self.accounts))
        for account, choice in zip(self.accounts, choices, strict=True):
            account.begin_step()
            if account.is_alive:
                account.decide(
                    choice, self.row + 1 + config.execution.delay,
                    self.world.data.tradable[self.row], self.removed,
                    config.tilt if config.action == "tilts" else 0.0,
                )  # fmt: skip
                if account.in_units:
                    due = self.row + 1 + config.execution.delay
                    smallest = config.execution.smallest_trade
                    marks = self.market.marks[self.row]
                    account.size(self.row, due, marks, smallest, self.removed)
        self._next_row()
        while not self._is_over() and not self.market.decides[self.row]:
            self._next_row()
        self._tell()

    def _is_over(self) -> bool:
        self.terminated = not any(account.is_alive for account in self.accounts)
        self.truncated = not self.terminated and self.row >= self.last
        return self.terminated or self.truncated

    def _next_row(self) -> None:
        self.row += 1
        costs, row = self.world.config.costs, self.row
        borrow = self.rates["borrow"]
        alive = [account for account in self.accounts if account.is_alive]
        for account in alive:
            account.accrue(self.market, row, costs, borrow)
            account.settle_delisted(self.market, row, costs)
        self._trade()
        for account in alive:
            account.mark(self.market, row)

    def _trade(self) -> None:
        """Fill the requests of all agents as far as volume and cash allow."""
        traders = [
            _Order(self, number, account)
            for number, account in enumerate(self.accounts)
            if account.is_alive
        ]
        rates = self._cut_to_volume(traders)
        for trader in traders:
            trader.afford(rates)
        self._cut_to_shared_limit(traders)
        for trader in traders:
            trader.fill(rates)

    def _cut_to_volume(self, traders: list[_Order]) -> Floats:
        """Share the volume of each asset, and compute its cost rate."""
        config, rates = self.world.config, np.zeros(self.market.assets)
        share = config.execution.participation
        for asset in range(self.market.assets):
            demand = sum(abs(trader.changes[asset]) for trader in traders)
            most = np.inf if share is None else share * self.market.volumes[self.row, asset]
            if demand > most:
                for trader in traders:
                    trader.lose(asset, 1.0 - most / demand)
                demand = most
            own = {name: rate[asset] for name, rate in self.rates.items()}
            rates[asset] = own["proportional"] + own["half_spread"]
            rates[asset] += own["per_share"] / self.market.prices[self.row, asset]
            rates[asset] += self.market.impact(self.row, asset, demand, own["impact"])
        return rates

    def _cut_to_shared_limit(self, traders: list[_Order]) -> None:
        limit = self.world.shared_leverage
        if limit is None:
            return
        room = limit * sum(max(trader.value, 0.0) for trader in traders)
        room = max(room - sum(trader.kept for trader in traders), 0.0)
        wanted = sum(trader.share * trader.added for trader in traders)
        if wanted > room:
            for trader in traders:
                trader.share *= room / wanted

    def _tell(self) -> None:
        rewards = [account.reward for account in self.accounts]
        there = [n for n, a in enumerate(self.accounts) if a.is_alive or a.was_ruined]
        own = {number: rewards[number] for number in there}
        mode = self.world.reward_mode
        if len(self.accounts) > 1 and mode != "own":
            for number in there:
                others = [own[other] for other in there if other != number]
                if mode == "cooperative":
                    rewards[number] = float(np.mean(list(own.values())))
                elif others:
                    rewards[number] = own[number] - float(np.mean(others))
        infos = [account.reported(self.row) for account in self.accounts]
        self.steps.append(Told(rewards, infos, [account.weights for account in self.accounts]))


def rates_of(costs: Costs, data: MarketData) -> dict[str, Floats]:
    """Rates of each asset."""
    defaults = {"impact": 1.0 if "volume" in data.fields else 0.0}
    rates = {}
    for name in ("proportional", "half_spread", "per_share", "impact", "borrow"):
        rate = getattr(costs, name)
        if rate is None:
            rate = defaults[name]
        if isinstance(rate, dict):
            numbers = [rate[asset] if asset in rate else rate["default"] for asset in data.assets]
        else:
            numbers = [rate] * len(data.assets)
        rates[name] = np.array(numbers)
    return rates


class _Order:
    """Requested trades of an account in a row, and their fills."""

    def __init__(self, episode: Reference, number: int, account: ReferenceAccount) -> None:
        self.episode, self.number, self.account = episode, number, account
        self.prices = episode.market.prices[episode.row]
        self.value = account.cash + float(account.units @ self.prices)
        self.execution = episode.world.config.execution
        self.carries = self.execution.unfilled == "carry"
        self.changes = self._wanted()

    def _wanted(self) -> Floats:
        account, row = self.account, self.episode.row
        assets = len(self.prices)
        order = account.orders.pop(row, np.full(assets, np.nan))
        is_forced = account.is_called or self.value <= 0.0
        if is_forced:
            account.carried[:] = 0.0
        gross = float(np.abs(account.units) @ self.prices)
        keep = min(1.0, account.leverage * max(self.value, 0.0) / gross) if gross else 0.0
        changes = np.zeros(assets)
        for asset in range(assets):
            target = order[asset] * max(self.value, 0.0) / self.prices[asset]
            if account.in_units:
                target = account.units[asset] + order[asset]
            is_open = bool(self.episode.world.data.tradable[row, asset])
            change = self._forced(asset, target, keep) if is_forced else self._free(asset, target)
            changes[asset] = self._with_carried(asset, target, change, is_open, is_forced)
            if account.in_units and not account.is_margin:
                changes[asset] = max(changes[asset], -account.units[asset])
            if asset in self.episode.removed:
                changes[asset] = account.reducing(asset, changes[asset])
        return changes

    def _forced(self, asset: int, target: float, keep: float) -> float:
        """No more than may be kept, on the same side."""
        units = self.account.units[asset]
        most = units * keep
        wanted = most if np.isnan(target) else target
        return float(np.clip(wanted, min(most, 0.0), max(most, 0.0)) - units)

    def _free(self, asset: int, target: float) -> float:
        if np.isnan(target):
            return 0.0
        change = target - self.account.units[asset]
        if self.account.in_units:
            return float(change)
        smallest = max(self.execution.smallest_trade - 1e-12, 0.0)
        is_small = abs(change) * self.prices[asset] < smallest * self.value
        return 0.0 if is_small and target != 0.0 else float(change)

    def _with_carried(
        self, asset: int, target: float, change: float, is_open: bool, is_forced: bool
    ) -> float:
        """A new order takes the place of an old one; an old one is tried where it can be."""
        carried, units = self.account.carried, self.account.units[asset]
        if self.carries and not np.isnan(target):
            gone = self.account.in_units and not self._is_listed(asset)
            carried[asset] = 0.0 if is_open or gone else target - units
        elif self.carries and is_open and not is_forced:
            # What rounding left of an order is none.
            is_order = abs(carried[asset]) * self.prices[asset] >= 1e-9 * self.value
            change, carried[asset] = carried[asset] if is_order else 0.0, 0.0
        return change if is_open else 0.0

    def _is_listed(self, asset: int) -> bool:
        return bool(self.episode.world.data.listed[self.episode.row, asset])

    def lose(self, asset: int, share: float) -> None:
        """Not be given a share of what was wanted of an asset."""
        lost = self.changes[asset] * share
        self.changes[asset] -= lost
        if self.carries:
            self.account.carried[asset] += lost

    def afford(self, rates: Floats) -> None:
        """Find the share of what adds to positions that the account can pay for."""
        units, prices = self.account.units, self.prices
        self._leave_out_what_nobody_pays_for(rates)
        shrinks = np.sign(self.changes) == -np.sign(units)
        self.less = np.where(shrinks, np.minimum(np.abs(self.changes), np.abs(units)), 0.0)
        self.more = np.abs(self.changes) - self.less
        self.only_more = (self.more > 0) & (self.less == 0)
        orders = int((self.less > 0).sum() + self.only_more.sum())
        fixed = self.episode.world.config.costs.fixed * orders
        equity = self.value - float((self.less * prices) @ rates) - fixed
        self.kept = float((np.abs(units) - self.less) @ prices)
        self.added = float(self.more @ prices)
        room = self.account.leverage * equity - self.kept
        needed = self.added + self.account.leverage * float((self.more * prices) @ rates)
        self.share = 1.0 if needed <= room else max(room, 0.0) / max(needed, 1e-300)

    def _leave_out_what_nobody_pays_for(self, rates: Floats) -> None:
        """Without a loan, make only sales whose costs proceeds and cash can pay, cheapest first."""
        account, self.refused = self.account, 0.0
        if account.is_margin:
            return
        fixed = self.episode.world.config.costs.fixed
        values = np.where(self.changes < 0.0, -self.changes * self.prices, 0.0)
        brings = values * (1.0 - rates) - fixed
        sales = sorted(np.flatnonzero(values > 0.0), key=lambda asset: brings[asset], reverse=True)
        cash = account.cash
        for asset in sales:
            cash += brings[asset]
            if cash < 0.0 and brings[asset] < 0.0:
                self.refused += values[asset]
                self.changes[asset] = 0.0

    def fill(self, rates: Floats) -> None:
        """Trade, and pay for it."""
        account, costs = self.account, self.episode.world.config.costs
        done = np.sign(self.changes) * (self.less + self.share * self.more)
        traded = np.abs(done) * self.prices
        account.refused += self.refused + (1.0 - self.share) * self.added
        account.cash -= float(done @ self.prices)
        account.units = account.units + done
        own = self.episode.rates
        base = own["proportional"] + own["half_spread"] + own["per_share"] / self.prices
        account.pay("commission", float(traded @ own["proportional"]))
        account.pay("spread", float(traded @ own["half_spread"]))
        account.pay("per_share", float(np.abs(done) @ own["per_share"]))
        account.pay("impact", float(traded @ (rates - base)))
        only_more = int(self.only_more.sum()) if self.share > 0 else 0
        account.pay("fixed", costs.fixed * (int((self.less > 0).sum()) + only_more))
        if self.value > 0:
            account.turnover += float(traded.sum()) / self.value
        for asset in np.flatnonzero(done):
            fill: Any = (self.number, self.episode.row, int(asset), done[asset], rates[asset])
            self.episode.fills.append(fill)
