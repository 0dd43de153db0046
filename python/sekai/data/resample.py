"""Resampling: longer bars of a panel, each shown when it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, Calendar, duration
from sekai.data.corporate_actions import ADJUSTED_PRICES, ADJUSTED_VOLUMES
from sekai.data.market_data import PRICE_FIELDS, MarketData

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SUMS = ("volume", "trades", "turnover")
"""Fields that are added up."""
PERIODS = ("1d", "1w", "1mo", "1q", "1y")
"""Rules of a day and longer."""
FIRST_WEEKDAY = 3
"""Days from a Monday to 1970-01-01."""


def resample(data: MarketData, rule: str, *, keep_incomplete: bool = False) -> MarketData:
    """Aggregate rows to longer bars, see `MarketData.resample`."""
    if not len(data):
        return data
    bins = _Bins.of(data, rule)
    count = len(bins.starts) if keep_incomplete or bins.is_complete else len(bins.starts) - 1
    columns = _columns(data, bins)
    bars = [_field(data, columns, name, bins)[:count] for name in data.fields]
    return MarketData(
        bins.times[:count],
        data.assets,
        data.fields,
        np.stack(bars, axis=2),
        listed=np.logical_or.reduceat(data.listed, bins.starts)[:count],
        quoted=np.logical_or.reduceat(data.quoted, bins.starts)[:count],
        tradable=np.logical_or.reduceat(data.tradable, bins.starts)[:count],
        market={name: _last(series, bins)[:count] for name, series in data.market.items()},
        sectors=data.sectors,
        timezone=data.timezone,
        warm_up=min(count, int(np.searchsorted(bins.ends, data.warm_up, "right"))),
        delist_after=data.delist_after,
        repairs=data.repairs,
    )


@dataclass(frozen=True, slots=True)
class _Bins:
    """Rows of each bar."""

    starts: NDArray[np.intp]
    """First row of each bar."""
    ends: NDArray[np.intp]
    """Row after the last one of each bar."""
    times: NDArray[np.datetime64]
    """Timestamp of each bar."""
    is_complete: bool
    """True if the rows reach the end of the last bar."""

    @classmethod
    def of(cls, data: MarketData, rule: str) -> _Bins:
        is_intraday = data.frequency.nanoseconds < DAY
        # The timestamp of a row is its end: an intraday row at midnight belongs to the day before.
        shift = 1 if is_intraday else 0
        instants = data.calendar.nanoseconds - shift
        local = instants + _offsets(instants, data.timezone)
        if rule in PERIODS:
            labels = _periods(local // DAY, rule)
            following = int(_periods((local[-1:] + shift) // DAY, rule)[0])
            # That no row follows on a day is known at its end, or else with the next day.
            is_complete = following > labels[-1] if is_intraday else rule == "1d"
            starts, ends = _runs(labels)
            return cls(starts, ends, data.times[ends - 1], bool(is_complete))
        length = _checked_length(data, rule)
        # Ends of bars by the local clock, with the offset that it has then.
        guess = (local // length + 1) * length - (local - instants)
        bounds = guess + (local - instants) - _offsets(guess - 1, data.timezone)
        starts, ends = _runs(bounds)
        times = bounds[ends - 1].astype("datetime64[ns]")
        return cls(starts, ends, times, bool(times[-1] == data.times[-1]))


def _runs(labels: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    return starts, np.append(starts[1:], len(labels))


def _offsets(instants: Ints, timezone: str | None) -> Ints:
    """UTC offset at each instant."""
    local = Calendar(instants.astype("datetime64[ns]"), timezone).local
    offsets: Ints = local.astype(np.int64) - instants
    return offsets


def _checked_length(data: MarketData, rule: str) -> int:
    length = duration(rule)
    if not 0 < length < DAY or DAY % length:
        raise ValueError(
            f"rule must be a part of a day such as '5min' or '1h', or one of {PERIODS}, got "
            f"{rule!r}"
        )
    if length < data.frequency.nanoseconds:
        raise ValueError(
            f"rule must be at least the frequency of the rows, {data.frequency.name}, got {rule!r}"
        )
    return length


def _periods(days: Ints, rule: str) -> Ints:
    if rule == "1d":
        return days
    if rule == "1w":
        weeks: Ints = (days + FIRST_WEEKDAY) // 7
        return weeks
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    labels: Ints = months // {"1mo": 1, "1q": 3, "1y": 12}[rule]
    return labels


def _columns(data: MarketData, bins: _Bins) -> dict[str, Floats]:
    """Values of each field, in units after the last split of the bar that a row belongs to."""
    columns = {name: data.field(name) for name in data.fields}
    if "split" not in columns:
        return columns
    units = _later_splits(_ratios(columns["split"]), bins)
    for name in (*ADJUSTED_PRICES, "dividend"):
        if name in columns:
            columns[name] = columns[name] / units
    for name in ADJUSTED_VOLUMES:
        if name in columns:
            columns[name] = columns[name] * units
    return columns


def _ratios(splits: Floats) -> Floats:
    return np.where(splits > 0.0, splits, 1.0)


def _later_splits(ratios: Floats, bins: _Bins) -> Floats:
    """Product of the split ratios of the rows after each one in its bar."""
    later = np.ones_like(ratios)
    has_split = np.logical_or.reduceat((ratios != 1.0).any(axis=1), bins.starts)
    for start, end in zip(bins.starts[has_split], bins.ends[has_split], strict=True):
        later[start : end - 1] = np.cumprod(ratios[start + 1 : end][::-1], axis=0)[::-1]
    return later


def _field(data: MarketData, columns: dict[str, Floats], name: str, bins: _Bins) -> Floats:
    """Values of a field by bar and asset."""
    values = columns[name]
    if name == "split":
        product: Floats = np.multiply.reduceat(_ratios(values), bins.starts)
        return np.where(np.logical_or.reduceat(values > 0.0, bins.starts), product, np.nan)
    if name in SUMS or name == "dividend":
        known = np.isfinite(values) & (data.quoted | (name == "dividend"))
        total = np.add.reduceat(np.where(known, values, 0.0), bins.starts)
        return np.where(np.logical_or.reduceat(known, bins.starts), total, np.nan)
    last = _last(values, bins)
    if name not in PRICE_FIELDS:
        return last
    # Repeated prices, which are not quotes, are shown where a bar has no others.
    quoted = np.logical_or.reduceat(data.quoted, bins.starts)
    return np.where(quoted, _prices(data, columns, name, bins), last)


def _prices(data: MarketData, columns: dict[str, Floats], name: str, bins: _Bins) -> Floats:
    values, starts, quoted = columns[name], bins.starts, data.quoted
    if name == "high":
        return np.asarray(np.maximum.reduceat(np.where(quoted, values, -np.inf), starts))
    if name == "low":
        return np.asarray(np.minimum.reduceat(np.where(quoted, values, np.inf), starts))
    if name == "vwap" and "volume" in columns:
        return _weighted(values, np.where(quoted, columns["volume"], 0.0), bins)
    rows = np.arange(len(values))[:, None]
    if name == "open":
        first = np.minimum.reduceat(np.where(quoted, rows, len(values) - 1), starts)
        return np.take_along_axis(values, first, axis=0)
    return _last(np.where(quoted, values, np.nan), bins)


def _weighted(values: Floats, volume: Floats, bins: _Bins) -> Floats:
    """Mean weighted by volume; the last value where nothing was traded."""
    weights: Floats = np.where(np.isfinite(values) & (volume > 0), volume, 0.0)
    total = np.add.reduceat(weights, bins.starts)
    value = np.add.reduceat(weights * np.nan_to_num(values), bins.starts)
    last = _last(values, bins)
    mean: Floats = np.divide(value, total, out=last.copy(), where=total > 0)
    return mean


def _last(values: Floats, bins: _Bins) -> Floats:
    """Last value of each bar; NaN where it has none."""
    rows = np.arange(len(values)).reshape((-1,) + (1,) * (values.ndim - 1))
    known = np.where(np.isfinite(values), rows, -1)
    last: Any = np.maximum.reduceat(known, bins.starts)
    return np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), np.nan)
