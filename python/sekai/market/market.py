"""The living market: books, values, news and a population of traders, tick by tick."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs import _core
from quant_gym_rs.codes import Side, TimeInForce
from sekai.error import StateError
from sekai.market.config import MarketConfig
from sekai.market.records import Depth, Placement

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Account", "Market", "NewsEvent", "Recording"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What a market did: arrays of (ticks, symbols), and a row for each trade. Prices in ticks."""

    mid: Floats
    fair: Floats
    sentiment: Floats
    high: Counts
    low: Counts
    close: Counts
    bought: Counts
    """Lots taken by buyers."""
    sold: Counts
    """Lots taken by sellers."""
    trades: Counts
    """Incoming orders that traded."""
    spread: Counts
    """Ticks from bid to ask; 0 where a side was empty."""
    trade_tick: Counts
    """The tick of each trade, counted from 0."""
    trade_symbol: Counts
    trade_sign: Counts
    """1 where a buyer came in, -1 where a seller did."""
    trade_price: Counts
    trade_size: Counts

    @property
    def volume(self) -> Counts:
        """Lots that traded."""
        return self.bought + self.sold


@dataclass(frozen=True, slots=True)
class Account:
    """What a learning agent owns, in currency and lots."""

    cash: float
    equity: float
    """Cash and lots at mid prices."""
    lots: tuple[int, ...]
    """Lots of each symbol; negative when sold short."""
    realized_pnl: float
    """Profit of closed lots, before fees."""
    fees: float


@dataclass(frozen=True, slots=True)
class NewsEvent:
    """Something that people talk about."""

    topic: str
    """`earnings`, `guidance`, `rates` or `sector`."""
    symbol: int
    sentiment: float
    """From -1 (bad) to 1 (good), when it came out."""
    magnitude: float
    age: int
    """Ticks since it came out."""
    duration: int
    """Ticks that it is talked about."""


class Market(_core.Market):
    """Books of one or more symbols with everybody who trades in them.

    The market moves by `tick` alone; between ticks, learning agents may trade, each for an
    account of its own. Prices and sizes are whole ticks and lots. The same seed gives the same
    market, whatever else runs. Threads may share a market: each call waits for the one before it.
    """

    config: MarketConfig

    def __new__(
        cls, config: MarketConfig | None = None, *, seed: int = 0, episode: int = 0
    ) -> Self:
        """Open a market; books are empty until the first tick."""
        config = MarketConfig() if config is None else config
        market = super().__new__(cls, json.dumps(config.settings), seed, episode)
        market.config = config
        return market

    def record(self, ticks: int) -> Recording:
        """Let the world turn `ticks` times and tell what happened."""
        return Recording(**self.record_columns(ticks))

    def place(
        self,
        side: Side,
        price: int,
        size: int,
        *,
        agent: int = 0,
        symbol: int = 0,
        time_in_force: TimeInForce = TimeInForce.GOOD_TILL_CANCELLED,
    ) -> Placement:
        """Take in an agent's order; `OrderError` if its account or the book refuses it."""
        return self.place_order(agent, symbol, side, price, size, time_in_force)

    def depth(self, levels: int, symbol: int = 0) -> Depth:
        """The best `levels` levels of both sides of a symbol's book."""
        bids = self.depth_columns(symbol, Side.BUY, levels)
        return Depth(*bids, *self.depth_columns(symbol, Side.SELL, levels))

    def account(self, agent: int = 0) -> Account:
        """What an agent owns."""
        cash, equity, lots, realised, fees = self.account_columns(agent)
        unit = self.config.tick_size
        return Account(
            unit * cash, unit * equity, tuple(lots), unit * sum(realised), unit * sum(fees)
        )

    def news(self) -> tuple[NewsEvent, ...]:
        """What people talk about, oldest first."""
        return tuple(NewsEvent(*row) for row in self.news_rows())

    def state_dict(self) -> dict[str, Any]:
        """The whole state as bytes with version and checksum."""
        return {"market": self.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the market that `state_dict` told of; a refused state changes nothing."""
        found = state.get("market") if isinstance(state, Mapping) else None
        if not isinstance(found, bytes):
            raise StateError(
                "a state with the bytes of a market under 'market' was wanted, found another one"
            )
        self.decode(found)
