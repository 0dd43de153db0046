"""Instruments: lots, ticks, minimum sizes and price bands of a venue, and rounding of orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from sekai.config.checked import CheckedConfig
from sekai.config.convert import require
from sekai.live.account import ROUNDING_UNITS
from sekai.live.orders import BrokerOrder

__all__ = ["Instrument", "OrderResidual", "ResidualReason", "is_flat", "round_orders"]

ResidualReason = Literal["lot", "min_units", "min_notional", "max_units", "price_band"]

ROUNDING_TOLERANCE = Decimal("1e-12")
"""Units this close to a whole number of lots, relative to the units, are that number: sums of
floats such as 0.1 + 0.2 are off by less."""

_MOST_LOTS = Decimal("1e-3")
"""The tolerance is never more than this share of a lot."""

# Wide enough for the product of any two floats in decimal digits, so that nothing is rounded twice.
_EXACT = Context(prec=800, Emax=10_000, Emin=-10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument(CheckedConfig):
    """Trading rules of a venue for one asset.

    Numbers are the decimal numbers that they print as: a lot of 0.1 is one tenth, not the nearest
    binary fraction.
    """

    asset: str
    """Name of the asset."""

    lot: float | None = None
    """Smallest step of order sizes in units; None for any size."""

    tick: float | None = None
    """Smallest step of prices; None for any price."""

    min_units: float = 0.0
    """Smallest order in units."""

    min_notional: float = 0.0
    """Smallest value of an order, in currency."""

    max_units: float | None = None
    """Largest order in units."""

    price_low: float = 0.0
    """Lowest price at which orders are sent."""

    price_high: float | None = None
    """Highest price at which orders are sent."""

    def __post_init__(self) -> None:
        for name in ("lot", "tick", "max_units", "price_high"):
            value = getattr(self, name)
            require(value is None or _is_size(value, 0.0), name, "a number above 0 or None", value)
        for name in ("min_units", "min_notional", "price_low"):
            value = getattr(self, name)
            require(value == 0.0 or _is_size(value, 0.0), name, "a number of at least 0", value)
        if self.price_high is not None and self.price_high < self.price_low:
            raise ValueError(
                f"price_high must be at least price_low {self.price_low}, got {self.price_high}"
            )
        if self.max_units is not None and self.max_units < max(self.min_units, self.lot or 0.0):
            raise ValueError(
                f"max_units must be at least min_units {self.min_units} and the lot {self.lot}, "
                f"got {self.max_units}"
            )

    def round_units(self, units: float) -> float:
        """Round units towards 0 to whole lots, exactly; not finite ones are returned as they are.

        Units within rounding of a whole number of lots are that number.
        """
        if self.lot is None or not math.isfinite(units):
            return units
        lot = _decimal(self.lot)
        count = _EXACT.divide(_decimal(units), lot)
        nearest = count.to_integral_value(ROUND_HALF_EVEN)
        tolerance = min(abs(count) * ROUNDING_TOLERANCE, _MOST_LOTS)
        if abs(count - nearest) > tolerance:
            nearest = count.to_integral_value(ROUND_DOWN)
        # `+ 0.0`: a sale of less than a lot is no order, and not one of -0.0 units.
        return float(_EXACT.multiply(nearest, lot)) + 0.0

    def round_price(self, price: float) -> float:
        """Round a price to the nearest tick, at least one; invalid ones are left as they are."""
        if self.tick is None or not 0.0 < price < math.inf:
            return price
        tick = _decimal(self.tick)
        count = _EXACT.divide(_decimal(price), tick).to_integral_value(ROUND_HALF_EVEN)
        return float(_EXACT.multiply(max(count, Decimal(1)), tick))

    def has_price(self, price: float) -> bool:
        """Return True if orders may be sent at a price: it is within the band."""
        return self.price_low <= price <= (math.inf if self.price_high is None else self.price_high)

    def is_dust(self, units: float, price: float) -> bool:
        """Return True if a position is too small to be closed by an order.

        Args:
            units: position, signed.
            price: latest price; NaN if unknown, which leaves the notional unchecked.
        """
        size = abs(self.round_units(units))
        return size == 0.0 or size < self.min_units or size * price < self.min_notional


@dataclass(frozen=True, slots=True)
class OrderResidual:
    """Units of an order that are not sent, and the rule of the venue that is the reason."""

    order: BrokerOrder
    """The order before rounding."""

    units: float
    """Units that are not sent, signed as the order."""

    reason: ResidualReason
    text: str


def round_orders(
    orders: Sequence[BrokerOrder], instruments: Mapping[str, Instrument]
) -> tuple[list[BrokerOrder], list[OrderResidual]]:
    """Round orders to the rules of the venue, always towards smaller ones.

    Units are rounded towards 0 to lots and to the largest order, reference prices to ticks. An
    order below a minimum or outside the price band is not sent. Orders of assets without an
    instrument, and invalid ones, which the risk gate refuses, are left as they are.

    Args:
        orders: orders of a decision.
        instruments: instruments by asset.

    Returns:
        The orders to send, under the same ids, and what is left of them with its reason.
    """
    rounded: list[BrokerOrder] = []
    residuals: list[OrderResidual] = []
    for order in orders:
        instrument = instruments.get(order.asset)
        if instrument is None or not _is_valid(order):
            rounded.append(order)
            continue
        sent, residual = _round_order(order, instrument)
        if sent is not None:
            rounded.append(sent)
        if residual is not None:
            residuals.append(residual)
    return rounded, residuals


def is_flat(
    units: Mapping[str, float],
    instruments: Mapping[str, Instrument],
    prices: Mapping[str, float],
) -> bool:
    """Return True if no position is held up to dust, which no order could close.

    Args:
        units: positions by asset.
        instruments: instruments by asset; without one, any position counts.
        prices: latest prices by asset.
    """
    return all(
        abs(held) <= ROUNDING_UNITS
        or (asset in instruments and instruments[asset].is_dust(held, prices.get(asset, math.nan)))
        for asset, held in units.items()
    )


def _round_order(
    order: BrokerOrder, instrument: Instrument
) -> tuple[BrokerOrder | None, OrderResidual | None]:
    price = instrument.round_price(order.reference_price)
    if not instrument.has_price(price):
        band = f"{instrument.price_low} to {instrument.price_high or math.inf}"
        return None, _residual(order, 0.0, "price_band", f"price {price} is outside {band}")
    units = instrument.round_units(order.units)
    reason: ResidualReason = "lot"
    text = f"less than a lot of {instrument.lot} remains"
    if instrument.max_units is not None and abs(units) > instrument.max_units:
        units = instrument.round_units(math.copysign(instrument.max_units, units))
        reason, text = "max_units", f"the largest order is {instrument.max_units} units"
    size = abs(units)
    if 0.0 < size < instrument.min_units:
        return None, _residual(
            order, 0.0, "min_units", f"the smallest order is {instrument.min_units} units"
        )
    if size > 0.0 and size * price < instrument.min_notional:
        return None, _residual(
            order, 0.0, "min_notional", f"the smallest order is worth {instrument.min_notional}"
        )
    residual = None if units == order.units else _residual(order, units, reason, text)
    return replace(order, units=units, reference_price=price) if size else None, residual


def _residual(
    order: BrokerOrder, sent: float, reason: ResidualReason, text: str
) -> OrderResidual | None:
    left = float(_EXACT.subtract(_decimal(order.units), _decimal(sent)))
    if abs(left) <= abs(order.units) * float(ROUNDING_TOLERANCE):
        return None
    return OrderResidual(order, left, reason, text)


def _is_valid(order: BrokerOrder) -> bool:
    return math.isfinite(order.units) and 0.0 < order.reference_price < math.inf


def _is_size(value: object, low: float) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and low < float(value) < math.inf  # type: ignore[arg-type]


def _decimal(number: float) -> Decimal:
    """Decimal number that a float prints as."""
    return Decimal(repr(float(number)))
