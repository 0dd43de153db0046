"""An account on paper: orders in units, filled as the market's own rules say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PortfolioBatch, PortfolioPanel
from sekai.core.env import Env
from sekai.data import Bar, MarketData
from sekai.data.arriving_rows import ArrivingRows
from sekai.envs.account_report import PAID_KINDS, AccountReport
from sekai.envs.portfolio import Portfolio
from sekai.envs.portfolio_config import PortfolioConfig
from sekai.envs.portfolio_panel import columns_of
from sekai.envs.portfolio_universe import asset_alone, padded, with_asset, with_slots
from sekai.error import StateError
from sekai.market import CashAccount, Costs, Execution, MarginAccount
from sekai.market.settings import to_json

__all__ = ["PaperAccount", "PaperFill"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PaperFill:
    """Units of an asset that changed hands in a row."""

    asset: str
    units: float
    """Bought if positive, sold if negative."""

    price: float
    cost: float
    """What was paid for it, in currency, what every order costs included."""

    is_delisting: bool = False
    """Whether nobody ordered it: the asset is gone, and the position became cash."""


class _Holdings(NamedTuple):
    """What an account has, by name, and what its last row did to it."""

    cash: float
    units: dict[str, float]
    open_units: dict[str, float]
    costs: dict[str, float]
    traded: float


class PaperAccount:
    """Cash and units that orders change, on the rules of `Portfolio-v0` and in the same code.

    Orders wait for the next row, and `delay` rows more; halts, volumes, costs, loans, margin calls
    and delistings are those of the env. Orders are units: how they are sized is not its business.
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
        """Begin with nothing but cash, after the last row of a history.

        Args:
            history: what is known; at least one row.
            execution: when and how far orders are filled.
            costs: what trading and holding costs.
            account: whether it may borrow.
            initial_cash: what it begins with.
            slots: places that are kept free for assets that come later.
            keep_rows: how many of the last rows are kept at least; None keeps all.
        """
        self._config = PortfolioConfig(
            lookback=1, observation="index", episode_rows=None, initial_cash=initial_cash,
            execution=execution or Execution(), costs=costs or Costs(),
            account=account or CashAccount(),
        )  # fmt: skip
        self._free, self._keep_rows = slots, keep_rows
        self._assets = history.assets
        self._rows = ArrivingRows(with_slots(history, slots))
        data = self._rows.panel()
        self._batch = PortfolioBatch(_panel(data), self._settings(data), num_threads=1)
        self._batch.keep_log(True)
        self._batch.reset_one(0)
        self._costs = dict.fromkeys(PAID_KINDS, 0.0)
        self._is_ruined = False
        self._has = self._look()

    @classmethod
    def like(cls, env: Env[Any, Any], *, delay: int | None = None) -> PaperAccount:
        """An account on the rules and the rows of an env, with what its episodes begin with.

        Args:
            env: a `Portfolio`, wrapped or not.
            delay: rows that orders wait beyond the next one, if not those of the env.
        """
        env = env.unwrapped
        if not isinstance(env, Portfolio):
            raise TypeError(f"a Portfolio was wanted, found {env!r}")
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
        """The names of the assets, without places that are still free."""
        return self._assets

    @property
    def execution(self) -> Execution:
        """When and how far orders are filled."""
        return self._config.execution

    @property
    def cash(self) -> float:
        """What it has beside units; below 0 what it owes."""
        return self._has.cash

    @property
    def units(self) -> dict[str, float]:
        """What it has of each asset."""
        return dict(self._has.units)

    @property
    def open_units(self) -> dict[str, float]:
        """What is still to be traded of orders that were due: none unless they are carried."""
        return dict(self._has.open_units)

    @property
    def costs(self) -> dict[str, float]:
        """Everything paid so far by kind, as the fields of `Costs` are called."""
        return dict(self._costs)

    @property
    def traded(self) -> float:
        """The value of all that was traded in the last row."""
        return self._has.traded

    @property
    def is_ruined(self) -> bool:
        """Whether nothing is left of it: it trades no more."""
        return self._is_ruined

    def advance(self, bar: Bar, orders: Mapping[str, float] | None = None) -> list[PaperFill]:
        """Take in the next row, with what was ordered before it. A refused call changes nothing.

        Args:
            bar: the row.
            orders: units of assets to trade. An order takes the place of what is left of earlier
                ones in the asset that were due; one of 0.0 units does only that.
        """
        units = self._ordered(orders or {})
        latest = self._pushed(bar)
        if self._is_ruined:
            return []
        self._is_ruined = self._batch.step_one(units).terminated
        self._has = self._look()
        self._costs = {kind: paid + self._has.costs[kind] for kind, paid in self._costs.items()}
        return self._fills(latest)

    def report(self) -> AccountReport:
        """What the account is after the last row, and what the row did to it."""
        has = self._has
        return AccountReport(
            cash=has.cash, units=dict(has.units), open_units=dict(has.open_units),
            costs=dict(has.costs), traded=has.traded,
        )  # fmt: skip

    def remove_asset(self, name: str) -> None:
        """Take only orders that close the position; earlier ones that add to it are cancelled."""
        self._batch.set_removed(0, self._place(name), True)
        self._has = self._look()

    def add_asset(self, name: str, data: MarketData | None = None) -> None:
        """Let an asset in again, or with its rows a new one into a free place."""
        if data is None:
            self._batch.set_removed(0, self._place(name), False)
            self._has = self._look()
            return
        if name in self._assets or not self._free:
            found = f"{name!r}, which is there" if name in self._assets else "no free place: slots="
            raise ValueError(f"a new asset and a free place were wanted, found {found}")
        known = self._rows.panel()
        asset = asset_alone(name, data, known)
        wider = with_asset(known, len(self._assets), asset)
        self._batch.fill_slot(len(self._assets), _panel(asset), self._settings(wider))
        self._rows, self._free = ArrivingRows(wider), self._free - 1
        self._assets = (*self._assets, name)
        self._has = self._look()

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit, on the same rows."""
        return {
            "batch": self._batch.state_dict(),
            "costs": list(self._costs.values()),
            "is_ruined": self._is_ruined,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        if state.keys() != {"batch", "costs", "is_ruined"} or len(state["costs"]) != len(
            PAID_KINDS
        ):
            raise StateError(f"the state of a paper account was wanted, found {sorted(state)}")
        self._batch.load_state_dict(state["batch"])
        self._costs = dict(zip(PAID_KINDS, map(float, state["costs"]), strict=True))
        self._is_ruined = bool(state["is_ruined"])
        self._has = self._look()

    def _settings(self, data: MarketData) -> str:
        config = self._config
        shared = {**config.shared_settings(data, first_row=0), "action": "orders"}
        alone = {"agents": [config.settings(data)], "shared_leverage": None, "reward_mode": "own"}
        return to_json({**shared, **alone})

    def _place(self, name: str) -> int:
        if name not in self._assets:
            raise KeyError(f"one of {', '.join(self._assets)} was wanted, found {name!r}")
        return self._assets.index(name)

    def _look(self) -> _Holdings:
        """Ask what the account has, whenever that may have changed; nobody else asks."""
        cash, units, open_units, paid, traded = self._batch.account(0)
        return _Holdings(
            cash, self._by_name(units), self._by_name(open_units),
            dict(zip(PAID_KINDS, paid.tolist(), strict=True)), traded,
        )  # fmt: skip

    def _by_name(self, numbers: Floats) -> dict[str, float]:
        return dict(zip(self._assets, numbers.tolist(), strict=False))

    def _ordered(self, orders: Mapping[str, float]) -> Floats:
        units = [math.nan] * (len(self._assets) + self._free)
        for name, number in orders.items():
            if not math.isfinite(number):
                raise ValueError(f"finite units of {name} were wanted, found {number}")
            units[self._place(name)] = number
        return np.array(units)

    def _pushed(self, bar: Bar) -> MarketData:
        wanted = len(self._assets)
        if len(np.shape(bar.values)) != 2 or np.shape(bar.values)[0] != wanted:
            raise ValueError(f"a row of {wanted} assets was wanted, found {np.shape(bar.values)}")
        bar = padded(bar, self._free)
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
        """What the row that has just come changed."""
        fills, fixed, listed = [], self._config.costs.fixed, latest.listed[0].tolist()
        for place, units, price, rate in self._batch.take_trades():
            is_listed = listed[place]
            cost = abs(units * price) * rate + (fixed if is_listed else 0.0)
            fills.append(PaperFill(self._assets[place], units, price, cost, not is_listed))
        return fills


def _panel(data: MarketData) -> PortfolioPanel:
    return PortfolioPanel(_columns(data), True)


def _columns(data: MarketData) -> dict[str, Any]:
    columns = columns_of(data, None, None, "every_row")
    columns["benchmark"] = np.zeros(len(data))
    return columns
