"""Panels that could have been: some rows are others, the rest is the same to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.utils.perturbation import KINDS

__all__ = ["changed", "holed", "perturbed", "truncated"]

Bools = NDArray[np.bool_]
HALTED = 0.1
DELISTED = 0.3


def perturbed(
    data: MarketData, time: Any, rng: np.random.Generator, kind: str | None = None
) -> MarketData:
    """The same panel up to `time`, and another after it: values, halts and delistings.

    Args:
        data: what was.
        time: the last stamp, or the last row, that stays as it is.
        rng: where the new values come from.
        kind: `scaled`, `noise` or `reversed`; drawn if not given.
    """
    return changed(data, ~_known(data, time), rng, kind or str(rng.choice(sorted(KINDS))))


def holed(data: MarketData, rng: np.random.Generator) -> MarketData:
    """The same panel with more halts, later listings and earlier delistings."""
    rows, assets = data.listed.shape
    first = np.where(rng.random(assets) < DELISTED, rng.integers(0, rows, assets), 0)
    last = np.where(rng.random(assets) < DELISTED, rng.integers(0, rows, assets), rows)
    place = np.arange(rows)[:, None]
    listed = data.listed & (place >= first) & (place < last)
    quoted = data.quoted & listed & (rng.random(listed.shape) >= HALTED)
    values = np.where(quoted[:, :, None], data.values, np.nan)
    tradable = data.tradable & quoted
    return data.replace(values=values, listed=listed, quoted=quoted, tradable=tradable)


def truncated(data: MarketData, rows: int) -> MarketData:
    """The first `rows` rows, whose frequency is counted anew unless somebody has stated it."""
    return data.rows(0, rows).replace(frequency=data._frequency)


def changed(
    data: MarketData, where: Bools, rng: np.random.Generator, kind: str, *, holes: bool = True
) -> MarketData:
    """The same panel with other rows `where` it says so.

    Args:
        data: what was.
        where: the rows that are changed.
        rng: where the new values come from.
        kind: how values are changed, see `sekai.utils.perturbation`.
        holes: whether halts and delistings are changed as well; values alone if not.
    """
    change = KINDS[kind]
    values = data.values.copy()
    for place in range(values.shape[2]):
        values[where, :, place] = change(data.values[:, :, place], where, rng)
    _order_prices(data, values, where)
    series = {
        name: _replaced(kept, where, change(kept, where, rng)) for name, kept in data.market.items()
    }
    if not holes:
        values[np.isnan(data.values)] = np.nan
        return data.replace(values=_priced(data, values), market=series)
    listed, quoted, tradable = _masks(data, where, rng, kind)
    quoted &= _has_prices(data, values) & listed
    values[where[:, None] & ~quoted] = np.nan
    tradable &= quoted
    return data.replace(
        values=values, market=series, listed=listed, quoted=quoted, tradable=tradable
    )


def _known(data: MarketData, time: Any) -> Bools:
    if isinstance(time, (int, float, np.number)):
        return np.arange(len(data)) <= time
    known: Bools = data.times <= np.datetime64(time, "ns")
    return known


def _masks(
    data: MarketData, where: Bools, rng: np.random.Generator, kind: str
) -> tuple[Bools, Bools, Bools]:
    listed, quoted, tradable = (mask.copy() for mask in (data.listed, data.quoted, data.tradable))
    shape = (int(where.sum()), len(data.assets))
    if kind == "noise":
        listed[where], quoted[where], tradable[where] = True, True, True
    if kind == "reversed":
        for mask in (listed, quoted, tradable):
            mask[where] = mask[where][::-1]
    quoted[where] &= rng.random(shape) >= HALTED
    tradable[where] &= rng.random(shape) >= HALTED
    gone = rng.random(shape[1]) < DELISTED
    last = np.where(gone, rng.integers(0, max(1, shape[0]), shape[1]), shape[0])
    listed[where] &= np.arange(shape[0])[:, None] < last
    return listed, quoted, tradable


def _order_prices(data: MarketData, values: NDArray[np.float64], where: Bools) -> None:
    """Keep the high above and the low below: a bar that cannot be proves nothing."""
    bars = [place for place, n in enumerate(data.fields) if n in ("open", "high", "low", "close")]
    for name, extreme in (("high", np.max), ("low", np.min)):
        if name in data.fields:
            values[where, :, data.fields.index(name)] = extreme(values[where][:, :, bars], axis=2)


def _priced(data: MarketData, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The old values of assets that are quoted and would have no price."""
    lost = data.quoted & ~_has_prices(data, values)
    values[lost] = data.values[lost]
    return values


def _has_prices(data: MarketData, values: NDArray[np.float64]) -> Bools:
    prices = [place for place, name in enumerate(data.fields) if name in PRICE_FIELDS]
    with np.errstate(invalid="ignore"):
        there = np.isfinite(values[:, :, prices]) & (values[:, :, prices] > 0)
    return np.asarray(there.all(axis=2))


def _replaced(
    old: NDArray[np.float64], where: Bools, new: NDArray[np.float64]
) -> NDArray[np.float64]:
    series = np.array(old)
    series[where] = new
    return series
