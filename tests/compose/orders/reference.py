"""Reference of order matching in plain Python, written from the rules alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reference:
    """One order; columns are lists of one number a tick."""

    price: list[float]
    volume: list[float]
    is_buy: bool
    amount: float
    window: tuple[int, int]
    ticks_per_step: int
    twap: bool
    """By cumulative targets and without a rest at the end, as Qlib's TWAP; else equal parts."""
    tradable: list[bool] | None = None
    current_cap: list[float] | None = None
    cumulative_cap: list[float] | None = None
    factor: list[float] | None = None
    trade_unit: float | None = None
    open_cost: float = 0.0
    close_cost: float = 0.0
    min_cost: float = 0.0
    impact_cost: float = 0.0
    cash: float | None = None
    rows: list[dict[str, float]] = field(default_factory=list)

    def run(self, amounts: Any) -> None:
        """Trade one amount a step, each cut down to what is left."""
        self.position, self.tick = self.amount, self.window[0]
        for amount in amounts:
            if self.tick >= self.window[1] or self.position <= 1e-12:
                return
            self.step(min(amount, self.position))

    def step(self, amount: float) -> None:
        end = min((self.tick // self.ticks_per_step + 1) * self.ticks_per_step, self.window[1])
        count = end - self.tick
        settled = 0.0
        for k in range(count):
            part = amount / count * (k + 1) - settled
            if k == count - 1:
                part = amount - settled
            elif self.trade_unit is not None and self.factor is not None:
                unit = self.trade_unit / self.factor[self.tick]
                part = min(round(part / unit) * unit, amount - settled)
            part = min(max(part, 0.0), self.position)
            if k == count - 1 and end == self.window[1] and not self.twap:
                part = self.position
            filled = self.trade(part)
            settled += filled if self.twap or not self.open() else part
            self.tick += 1
        if abs(self.position) < max(1e-6 * min(1.0, self.amount), 1e-12 * self.amount):
            self.position = 0.0

    def open(self) -> bool:
        price = self.price[self.tick]
        return price > 0 and (self.tradable is None or self.tradable[self.tick])

    def trade(self, wanted: float) -> float:
        tick, price = self.tick, self.price[self.tick]
        filled = value = cost = 0.0
        if self.open() and wanted > 0:
            filled, rate = self.clipped(tick, price, wanted)
            value = filled * price
            cost = max(value * rate, self.min_cost) if value > 1e-5 else 0.0
        self.rows.append({"wanted": wanted, "filled": filled, "value": value, "cost": cost})
        self.position -= filled
        if self.cash is not None:
            self.cash += (-value if self.is_buy else value) - cost
        return filled

    def clipped(self, tick: int, price: float, wanted: float) -> tuple[float, float]:
        dealt = sum(row["filled"] for row in self.rows)
        cap = self.position
        if self.current_cap is not None:
            cap = min(cap, self.current_cap[tick])
        if self.cumulative_cap is not None:
            cap = min(cap, self.cumulative_cap[tick] - dealt)
        cap = max(cap, 0.0)
        filled = min(wanted, cap)
        market = self.volume[tick] * price
        share = filled * price / market if market > 0 else 1.0
        rate = (self.open_cost if self.is_buy else self.close_cost) + self.impact_cost * share**2
        most = math.inf
        if self.is_buy and self.cash is not None:
            value = filled * price
            needed = value + (max(value * rate, self.min_cost) if value > 1e-5 else 0.0)
            if self.cash < needed:
                most = max(0.0, min(self.cash / (1 + rate), self.cash - self.min_cost)) / price
        filled = min(filled, most)
        keeps_odd_lot = not self.is_buy and self.cash is not None and filled >= self.position
        if self.trade_unit is not None and self.factor is not None and not keeps_odd_lot:
            factor = self.factor[tick]
            filled = (filled * factor + 0.1) // self.trade_unit * self.trade_unit / factor
        filled = min(filled, cap, most)
        if not self.is_buy and self.cash is not None:
            value = filled * price
            if self.cash + value < (max(value * rate, self.min_cost) if value > 1e-5 else 0.0):
                filled = 0.0
        return filled, rate
