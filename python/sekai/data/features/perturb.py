"""Perturbed panels for look-ahead checks: some rows differ, the rest is equal bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.corporate_actions import ACTION_FIELDS
from sekai.data.market_data import MarketData, price_indices
from sekai.utils.perturbation import KINDS

Bools = NDArray[np.bool_]
HALT_RATE = 0.1
DELISTING_RATE = 0.3


def perturb_panel(
    data: MarketData, time: Any, rng: np.random.Generator, kind: str | None = None
) -> MarketData:
    """Panel that is equal up to `time` and differs after it: values, halts and delistings.

    Args:
        data: original panel.
        time: last timestamp, or last row, that stays as it is.
        rng: random generator.
        kind: `scaled`, `noise` or `reversed`; drawn by default.
    """
    return perturb_rows(data, ~_known(data, time), rng, kind or str(rng.choice(sorted(KINDS))))


def add_gaps(data: MarketData, rng: np.random.Generator) -> MarketData:
    """Panel with more halts, later listings and earlier delistings."""
    rows, assets = data.listed.shape
    first = np.where(rng.random(assets) < DELISTING_RATE, rng.integers(0, rows, assets), 0)
    last = np.where(rng.random(assets) < DELISTING_RATE, rng.integers(0, rows, assets), rows)
    row = np.arange(rows)[:, None]
    listed = data.listed & (row >= first) & (row < last)
    quoted = data.quoted & listed & (rng.random(listed.shape) >= HALT_RATE)
    values = np.where(quoted[:, :, None], data.values, np.nan)
    tradable = data.tradable & quoted
    return data.replace(values=values, listed=listed, quoted=quoted, tradable=tradable)


def truncate(data: MarketData, rows: int) -> MarketData:
    """First `rows` rows, with the frequency inferred anew unless it was passed explicitly."""
    return data.rows(0, rows).replace(frequency=data._frequency)


def perturb_rows(
    data: MarketData, where: Bools, rng: np.random.Generator, kind: str, *, holes: bool = True
) -> MarketData:
    """Panel with other rows at `where`.

    Args:
        data: original panel.
        where: mask of the rows to change.
        rng: random generator.
        kind: change of the values, see `sekai.utils.perturbation`.
        holes: also change halts and delistings.
    """
    change = KINDS[kind]
    values = data.values.copy()
    for index in range(values.shape[2]):
        values[where, :, index] = change(data.values[:, :, index], where, rng)
        if data.fields[index] in ACTION_FIELDS:
            # A row without a dividend or split has none, whatever its size.
            values[np.isnan(data.values[:, :, index]), index] = np.nan
    _order_prices(data, values, where)
    market = {}
    for name, series in data.market.items():
        market[name] = np.array(series)
        market[name][where] = change(series, where, rng)
    if not holes:
        values[np.isnan(data.values)] = np.nan
        return data.replace(values=_priced(data, values), market=market)
    listed, quoted, tradable = _masks(data, where, rng, kind)
    quoted &= _has_prices(data, values) & listed
    values[where[:, None] & ~quoted] = np.nan
    tradable &= quoted
    return data.replace(
        values=values, market=market, listed=listed, quoted=quoted, tradable=tradable
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
    quoted[where] &= rng.random(shape) >= HALT_RATE
    tradable[where] &= rng.random(shape) >= HALT_RATE
    delisted = rng.random(shape[1]) < DELISTING_RATE
    last = np.where(delisted, rng.integers(0, max(1, shape[0]), shape[1]), shape[0])
    listed[where] &= np.arange(shape[0])[:, None] < last
    return listed, quoted, tradable


def _order_prices(data: MarketData, values: NDArray[np.float64], where: Bools) -> None:
    """Make high and low consistent with the other prices of each bar."""
    bars = [index for index, n in enumerate(data.fields) if n in ("open", "high", "low", "close")]
    for name, extreme in (("high", np.max), ("low", np.min)):
        if name in data.fields:
            values[where, :, data.fields.index(name)] = extreme(values[where][:, :, bars], axis=2)


def _priced(data: MarketData, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Restore the values of quoted assets that would lose their prices."""
    lost = data.quoted & ~_has_prices(data, values)
    values[lost] = data.values[lost]
    return values


def _has_prices(data: MarketData, values: NDArray[np.float64]) -> Bools:
    prices = price_indices(data.fields)
    with np.errstate(invalid="ignore"):
        valid = np.isfinite(values[:, :, prices]) & (values[:, :, prices] > 0)
    return np.asarray(valid.all(axis=2))
