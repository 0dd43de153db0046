"""Paper account: simulated fills of orders in units, by the rules of `Portfolio-v0`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch, PortfolioPanel
from sekai.core.env import Env
from sekai.data import Bar, MarketData
from sekai.data.streaming import StreamingPanel
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio.batch import COST_FIELDS, AccountReport
from sekai.envs.portfolio.config import LEAST_KEPT, PortfolioConfig
from sekai.envs.portfolio.panel import fill_slot, pad_bar, panel_columns, select_asset, with_slots
from sekai.error import StateError
from sekai.live.account import BrokerAccount
from sekai.market import CashAccount, Costs, Execution, MarginAccount
from sekai.market.market import to_json

__all__ = ["PaperAccount", "PaperFill"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PaperFill:
    """Fill of a paper account in one row."""

    asset: str
    units: float
    """Positive if bought, negative if sold."""

    price: float
    cost: float
    """Cost in currency, with the fixed cost per order."""

    is_delisting: bool = False
    """True if the asset was delisted and its position became cash without an order."""


class PaperAccount:
    """Paper account that fills orders by the rules of `Portfolio-v0`, in the same code.

    Orders fill in the next row, or `delay` rows later; halts, volumes, costs, financing, margin
    calls and delistings are those of the env. It starts with cash after the last row of `history`.

    Args:
        history: known rows; at least one.
        execution: when and how far orders are filled.
        costs: costs of trading and holding.
        account: cash or margin account.
        initial_cash: initial cash.
        slots: free slots for assets that are added later.
        keep_rows: least number of last rows to keep; None keeps all.
    """

    def __init__(
        self,
        history: MarketData,
        *,
        execution: Execution | None = None,
        costs: Costs | None = None,
        account: CashAccount | MarginAccount | None = None,
        initial_cash: float = 100_000.0,
        slots: int = 0,
        keep_rows: int | None = None,
    ) -> None:
        self._config = PortfolioConfig(
            lookback=1,
            observation="index",
            episode_rows=None,
            initial_cash=initial_cash,
            execution=execution or Execution(),
            costs=costs or Costs(),
            account=account or CashAccount(),
        )
        self._history, self._free, self._keep_rows = history, slots, keep_rows
        self._assets = history.assets
        self._rows = StreamingPanel(with_slots(history, slots))
        data = self._rows.panel()
        self._batch = PortfolioBatch(_panel(data), self._settings(data), num_threads=1)
        self._batch.keep_log(True)
        self._batch.reset_one(0)
        self._costs = dict.fromkeys(COST_FIELDS, 0.0)
        self._is_ruined = False
        self._account: BrokerAccount
        self._refresh()

    @classmethod
    def like(cls, env: Env[Any, Any], *, delay: int | None = None) -> PaperAccount:
        """Paper account with the rules, rows and initial cash of an env.

        Args:
            env: a `Portfolio`, wrapped or not.
            delay: delay of orders in rows; that of the env if not given.
        """
        env = env.unwrapped
        if not isinstance(env, Portfolio):
            raise TypeError(f"expected a Portfolio env, got {env!r}")
        free = len(env.data.assets) - len(env.assets)
        execution = env.config.execution
        return cls(
            env.data.select(env.assets) if free else env.data,
            execution=execution if delay is None else replace(execution, delay=delay),
            costs=env.config.costs,
            account=env.config.account,
            initial_cash=env.config.initial_cash,
            slots=free,
            keep_rows=env.config.keep_rows,
        )

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the assets, without free slots."""
        return self._assets

    @property
    def history(self) -> MarketData:
        """Rows it was created with."""
        return self._history

    @property
    def execution(self) -> Execution:
        """Execution rules."""
        return self._config.execution

    @property
    def cash(self) -> float:
        """Cash; negative for a loan."""
        return self._account.cash

    @property
    def account(self) -> BrokerAccount:
        """Cash, positions, carried orders and costs after the last row."""
        return self._account

    @property
    def units(self) -> dict[str, float]:
        """Position of each asset in units."""
        return dict(self._account.units)

    @property
    def open_units(self) -> dict[str, float]:
        """Unfilled units of orders that were due; 0 unless they are carried."""
        return dict(self._account.open_units)

    @property
    def costs(self) -> dict[str, float]:
        """Total costs so far by kind, named as the fields of `Costs`."""
        return dict(self._costs)

    @property
    def traded(self) -> float:
        """Value traded in the last row."""
        return self._account.row_traded

    @property
    def is_ruined(self) -> bool:
        """True if no equity is left: it does not trade any more."""
        return self._is_ruined

    def advance(self, bar: Bar, orders: Mapping[str, float] | None = None) -> list[PaperFill]:
        """Fill orders in the next row. A refused call changes nothing.

        Args:
            bar: the row.
            orders: units to trade by asset. An order replaces what is left of earlier ones in the
                asset that were due; one of 0.0 units only cancels them.
        """
        units = self._ordered(orders or {})
        latest = self._pushed(bar)
        if self._is_ruined:
            return []
        self._is_ruined = self._batch.step_one(units).terminated
        self._refresh(is_new_row=True)
        return self._fills(latest)

    def report(self) -> AccountReport:
        """Account report of the last row, for an env."""
        return self._account.report(self._assets)

    def remove_asset(self, name: str) -> None:
        """Accept only reductions of the position; earlier orders that add to it are cancelled."""
        self._batch.set_removed(0, self._index(name), True)
        self._refresh()

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Trade a removed asset again, or with `data` a new asset in a free slot."""
        if data is None:
            self._batch.set_removed(0, self._index(name), False)
            self._refresh()
            return
        if name in self._assets or not self._free:
            problem = "it exists already" if name in self._assets else "no slot is free; set slots="
            raise ValueError(f"asset {name!r} cannot be added: {problem}")
        known = self._rows.panel()
        asset = select_asset(name, data, known)
        wider = fill_slot(known, len(self._assets), asset)
        self._batch.fill_slot(len(self._assets), _panel(asset), self._settings(wider))
        self._rows, self._free = StreamingPanel(wider), self._free - 1
        self._assets = (*self._assets, name)
        self._refresh()

    def state_dict(self) -> dict[str, Any]:
        """State from which `load_state_dict` continues bit for bit, without earlier rows."""
        keep = None if self._keep_rows is not None else LEAST_KEPT
        return {
            "assets": list(self._assets),
            "rows": self._rows.state_dict(keep),
            "native_rows": self._batch.save_rows(len(self._rows) if keep is None else keep),
            "batch": self._batch.state_dict(),
            "costs": list(self._costs.values()),
            "row_costs": list(self._account.row_costs.values()),
            "row_traded": self._account.row_traded,
            "is_ruined": self._is_ruined,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        keys = ["assets", "batch", "costs", "is_ruined", "native_rows"]
        keys += ["row_costs", "row_traded", "rows"]
        if sorted(state) != keys or len(state["costs"]) != len(COST_FIELDS):
            raise StateError(f"not the state of a paper account: keys {sorted(state)}")
        if list(state["assets"]) != list(self._assets):
            raise StateError(
                f"state of another account: assets {state['assets']}, expected {self._assets}"
            )
        before = self._batch.save_rows(len(self._rows))
        try:
            self._batch.load_rows(state["native_rows"])
            self._batch.load_state_dict(state["batch"])
            self._rows.load_state_dict(state["rows"])
        except BaseException:
            self._batch.load_rows(before)
            raise
        self._costs = dict(zip(COST_FIELDS, map(float, state["costs"]), strict=True))
        self._is_ruined = bool(state["is_ruined"])
        self._refresh()
        # The changes of the last row are not part of the state of the core.
        row_costs = dict(zip(COST_FIELDS, map(float, state["row_costs"]), strict=True))
        self._account = replace(
            self._account, row_costs=row_costs, row_traded=float(state["row_traded"])
        )

    def _settings(self, data: MarketData) -> str:
        config = self._config
        shared = {**config.shared_settings(data, first_row=0), "action": "orders"}
        alone = {"agents": [config.settings(data)], "shared_leverage": None, "reward_mode": "own"}
        return to_json({**shared, **alone})

    def _index(self, name: str) -> int:
        if name not in self._assets:
            raise KeyError(f"unknown asset {name!r}; expected one of {list(self._assets)}")
        return self._assets.index(name)

    def _refresh(self, *, is_new_row: bool = False) -> None:
        """Read the account from the core; called after every change."""
        cash, units, open_units, paid, traded = self._batch.account(0)
        row_costs = dict(zip(COST_FIELDS, paid.tolist(), strict=True))
        if is_new_row:
            self._costs = {kind: total + row_costs[kind] for kind, total in self._costs.items()}
        self._account = BrokerAccount(
            cash=cash,
            units=self._by_name(units),
            open_units=self._by_name(open_units),
            costs=self._costs,
            row_costs=row_costs,
            row_traded=traded,
        )

    def _by_name(self, numbers: Floats) -> dict[str, float]:
        return dict(zip(self._assets, numbers.tolist(), strict=False))

    def _ordered(self, orders: Mapping[str, float]) -> Floats:
        units = [math.nan] * (len(self._assets) + self._free)
        for name, number in orders.items():
            if not math.isfinite(number):
                raise ValueError(f"units of {name} must be finite, got {number}")
            units[self._index(name)] = number
        return np.array(units)

    def _pushed(self, bar: Bar) -> MarketData:
        count, shape = len(self._assets), np.shape(bar.values)
        if len(shape) != 2 or shape[0] != count:
            raise ValueError(f"a row must have {count} assets, got values of shape {shape}")
        bar = pad_bar(bar, self._free)
        latest = self._rows.push(bar.time, bar.values, market=bar.market, **bar.masks())
        try:
            self._batch.push(_columns(latest))
        except Exception:
            self._rows.take_back()
            raise
        if self._keep_rows is not None and len(self._rows) >= 2 * self._keep_rows:
            self._rows.forget(self._batch.forget(self._keep_rows))
        return latest

    def _fills(self, latest: MarketData) -> list[PaperFill]:
        fills, fixed, listed = [], self._config.costs.fixed, latest.listed[0].tolist()
        for index, units, price, rate in self._batch.take_trades():
            is_listed = listed[index]
            cost = abs(units * price) * rate + (fixed if is_listed else 0.0)
            fills.append(PaperFill(self._assets[index], units, price, cost, not is_listed))
        return fills


def _panel(data: MarketData) -> PortfolioPanel:
    return PortfolioPanel(_columns(data), True)


def _columns(data: MarketData) -> dict[str, Any]:
    columns = panel_columns(data, None, None, "every_row")
    columns["benchmark"] = np.zeros(len(data))
    return columns
