"""Minimal paper account: fills at the open, one cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sekai.data import Bar
from sekai.live.account import BrokerAccount
from sekai.live.paper.account import PaperFill
from sekai.market import Execution


class PlainAccount:
    """Fills up to `depth` units of an asset per row, and `own_trade` without an order."""

    def __init__(
        self, unfilled: str = "drop", depth: float = float("inf"), cost_rate: float = 0.001
    ) -> None:
        self.assets = ("A", "B", "C")
        self.execution = Execution(unfilled=unfilled)  # type: ignore[arg-type]
        self.depth, self.cost_rate = depth, cost_rate
        self.cash, self.units = 1_000_000.0, dict.fromkeys(self.assets, 0.0)
        self.open_units: dict[str, float] = {}
        self.costs = {"proportional": 0.0}
        self.calls: list[dict[str, float]] = []
        self.own_trade: tuple[str, float] | None = None

    def advance(self, bar: Bar, orders: Mapping[str, float]) -> list[PaperFill]:
        opens = np.asarray(bar.values)[:, 0]
        if not np.isfinite(opens).all():
            raise ValueError(f"expected finite opens, got {opens}")
        self.calls.append(dict(orders))
        wanted = {asset: units for asset, units in {**self.open_units, **orders}.items() if units}
        if self.own_trade is not None:
            asset, units = self.own_trade
            wanted[asset] = wanted.get(asset, 0.0) + units
        self.open_units = {}
        fills = [self._trade(asset, units, opens) for asset, units in wanted.items()]
        return [fill for fill in fills if fill.units]

    @property
    def account(self) -> BrokerAccount:
        return BrokerAccount(
            cash=self.cash,
            units=dict(self.units),
            open_units=dict(self.open_units),
            costs=dict(self.costs),
        )

    def _trade(self, asset: str, wanted: float, opens: np.ndarray) -> PaperFill:
        units = max(-self.depth, min(self.depth, wanted))
        price = float(opens[self.assets.index(asset)])
        cost = abs(units) * price * self.cost_rate
        self.units[asset] += units
        self.cash -= units * price + cost
        self.costs["proportional"] += cost
        if self.execution.unfilled == "carry" and wanted != units:
            self.open_units[asset] = wanted - units
        return PaperFill(asset=asset, units=units, price=price, cost=cost)
