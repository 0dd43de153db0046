"""What Qlib's configs of exchanges say about prices, limits, caps and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.config_keys import Limited, check_values, refuse_unknown
from sekai.compose.orders.order import OrderDir
from sekai.data.intraday import DayTicks

__all__ = ["ExchangeConfig"]

VolumeLimit = tuple[str, str]

# The calendar, which is the order's day, and what is read or how it is stored beside prices.
IGNORED = ("start_time", "end_time", "subscribe_fields", "quote_cls")

LIMITED: Limited = {
    "extra_quote": ((None,), "must be None: prices come from the data alone"),
    "exchange": ((None,), "must be None: its settings are those of exchange_config"),
    "cash_limit": ((None,), "must be None here: pass it to SingleAssetOrderExecution"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeConfig:
    """An exchange; what is not given is as in Qlib."""

    freq: str = "1min"
    """The frequency of ticks."""

    codes: str | Sequence[str] = "all"
    """Which assets are traded."""

    deal_price: str | Sequence[str] | None = None
    """Expressions of the prices at which to buy and to sell, or one for both; `$close`."""

    limit_threshold: float | Sequence[str] | None = None
    """The largest `$change` up (no purchase) or down (no sale) at which there is trade; or
    expressions that are true where nothing can be bought and sold."""

    volume_threshold: Mapping[str, VolumeLimit] | VolumeLimit | None = None
    """By `all`, `buy` and `sell`: `("current", expression)` caps each tick, `("cum", expression)`
    all ticks of the day so far. The least of them holds."""

    open_cost: float = 0.0015
    close_cost: float = 0.0025
    min_cost: float = 5.0
    impact_cost: float = 0.0
    trade_unit: float | None = 100
    """Real shares come in multiples of this; None for any amount."""

    def __post_init__(self) -> None:
        for _, (kind, _) in self._volume_limits():
            if kind not in ("current", "cum"):
                raise ValueError(f"a volume threshold is 'current' or 'cum', was {kind!r}")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ExchangeConfig:
        """Read a config of Qlib's `Exchange`.

        Settings that cannot change the fills of one order are ignored.

        Raises:
            ValueError: when a key is not known, or a value would change fills.
        """
        known = [field.name for field in fields(cls)]
        refuse_unknown(config, (*known, *IGNORED, *LIMITED), "exchange_config")
        check_values(config, LIMITED, "exchange_config")
        return cls(**{name: value for name, value in config.items() if name in known})

    def price(self, direction: OrderDir) -> str:
        """The expression of the price of one direction."""
        given = "$close" if self.deal_price is None else self.deal_price
        pair = (given, given) if isinstance(given, str) else tuple(given)
        if len(pair) != 2:
            raise ValueError(f"deal_price must be one expression or two, was {given!r}")
        price = pair[0] if direction is OrderDir.BUY else pair[1]
        return f"${price}" if price.isidentifier() else price

    def columns(self, direction: OrderDir) -> list[str]:
        """All expressions that an order of one direction needs, `$factor` apart."""
        limits = [expression for _, expression in self._caps(direction)]
        return list(
            dict.fromkeys(
                [self.price(direction), "$close", "$volume", *limits, *self._limit(direction)]
            )
        )

    def tradable(self, ticks: DayTicks, direction: OrderDir) -> NDArray[np.bool_]:
        """Where the asset is neither suspended nor at its limit."""
        is_open: NDArray[np.bool_] = np.isfinite(ticks.column("$close"))
        if isinstance(self.limit_threshold, (int, float)):
            change = ticks.column("$change")
            return is_open & ~(direction.sign * change >= self.limit_threshold)
        for expression in self._limit(direction):
            # A limit that is not known is one: NaN is not 0.
            is_open = is_open & (ticks.column(expression) == 0)
        return is_open

    def cap(self, ticks: DayTicks, direction: OrderDir, kind: str) -> NDArray[np.float64] | None:
        """The least cap of a kind in each tick; None if there is none."""
        found = [ticks.column(text) for own, text in self._caps(direction) if own == kind]
        return np.minimum.reduce(found) if found else None

    def _limit(self, direction: OrderDir) -> list[str]:
        if self.limit_threshold is None:
            return []
        if isinstance(self.limit_threshold, (int, float)):
            return ["$change"]
        pair = list(self.limit_threshold)
        if len(pair) != 2:
            raise ValueError(
                f"limit_threshold must be a number or two expressions, was {self.limit_threshold!r}"
            )
        return [pair[0] if direction is OrderDir.BUY else pair[1]]

    def _caps(self, direction: OrderDir) -> list[VolumeLimit]:
        own = ("all", "buy" if direction is OrderDir.BUY else "sell")
        return [limit for side, limit in self._volume_limits() if side in own]

    def _volume_limits(self) -> list[tuple[str, VolumeLimit]]:
        given = self.volume_threshold
        if given is None:
            return []
        sides = given if isinstance(given, Mapping) else {"all": given}
        unknown = sorted(sides.keys() - {"all", "buy", "sell"})
        if unknown:
            raise ValueError(f"volume_threshold takes all, buy and sell, found {unknown}")
        for limit in sides.values():
            if isinstance(limit, str) or len(limit) != 2:
                raise ValueError(f"a volume threshold is a kind and an expression, was {limit!r}")
        return [(side, (limit[0], limit[1])) for side, limit in sides.items()]
