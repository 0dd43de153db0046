"""Event data with publication times: news, sentiment, fundamentals, macro series.

An event has a reference time and is published later. A row knows what was published up to and
including its timestamp. A revision is a later publication with the same reference time: until then
the value is the first published one.

    earnings = Events(quarter_ends, surprise, assets=names, delay="45d")
    Pipeline(["log_return", earnings.latest(age=True)])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.calendar import DAY, Duration, duration, is_duration
from sekai.data.features.feature import PanelFeature
from sekai.data.features.library import stable_elementwise
from sekai.data.market_data import MarketData, frozen
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]

MAX_HALF_LIVES = 64
"""Half-lives after which the rest of a value is below floating-point precision."""


class Events:
    """Events of assets or of the market, with the times at which they became known.

    Args:
        times: reference time of each event, in UTC.
        values: value of each event.
        assets: asset of each event; None if all are market-wide.
        delay: delay from the reference time to publication, `45d` for all or a timedelta each.
        published: publication times, instead of `delay`. One of the two is required: a default of
            0 would cause the look-ahead that this class prevents.
        name: prefix of its feature names.
    """

    def __init__(
        self,
        times: ArrayLike,
        values: ArrayLike,
        *,
        assets: Sequence[str] | None = None,
        delay: Duration | ArrayLike | None = None,
        published: ArrayLike | None = None,
        name: str = "events",
    ) -> None:
        if (delay is None) == (published is None):
            raise TypeError("pass either delay or published; delay='0s' if there is none")
        self.name = name
        self.times = frozen(_timestamps("times", times))
        self.values = frozen(np.asarray(values, np.float64))
        self.assets = None if assets is None else tuple(assets)
        known = _delayed(self.times, delay) if published is None else published
        self.published = frozen(_timestamps("published", known))
        self._check()

    def __repr__(self) -> str:
        of = "the market" if self.assets is None else f"{len(set(self.assets))} assets"
        return f"Events({self.name}: {len(self):,} of {of})"

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        time: str = "time",
        value: str = "value",
        asset: str | None = None,
        delay: Duration | None = None,
        published: str | None = None,
        name: str | None = None,
    ) -> Events:
        """Read columns of a pandas, polars or pyarrow frame; the arguments name them."""
        nw = optional_import("narwhals", "data", "Events.from_frame")
        table = nw.from_native(frame, eager_only=True)
        return cls(
            _utc(table[time]),
            table[value].to_numpy(),
            assets=None if asset is None else [str(item) for item in table[asset].to_list()],
            delay=delay,
            published=None if published is None else _utc(table[published]),
            name=name or value,
        )

    def __len__(self) -> int:
        return len(self.times)

    def latest(self, *, age: bool = False, longest: Duration | None = None) -> PanelFeature:
        """Feature: last published value with the latest reference time.

        Args:
            age: add the days since publication as a second channel.
            longest: time after publication for which a value is shown; None for ever.
        """
        limit = None if longest is None else duration(longest)
        channels = ("value", "age") if age else None
        return self._feature(Latest(self, age, limit), "latest", 1, channels)

    def sum(self, rows: int) -> PanelFeature:
        """Feature: sum of values first published in the last `rows` rows, without revisions."""
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        return self._feature(Sum(self, rows), f"sum_{rows}", rows + 1)

    def decay(self, half_life: Duration) -> PanelFeature:
        """Feature: sum of first published values with exponential decay."""
        length = duration(half_life)
        if not length:
            raise ValueError("half_life must be above 0, got 0")
        return self._feature(Decay(self, length), "decay", 1)

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Events:
        """Copy in which events published after `time` have other values, and some are later."""
        later = self.published > np.datetime64(time, "ns")
        scale = float(np.abs(self.values).max(initial=1.0))
        values = np.where(later, rng.normal(0, 2 * scale, len(self)), self.values)
        delayed = np.where(later & (rng.random(len(self)) < 0.3), rng.integers(1, 31, len(self)), 0)
        published = self.published + delayed.astype("timedelta64[D]")
        return Events(self.times, values, assets=self.assets, published=published, name=self.name)

    @cached_property
    def firsts(self) -> NDArray[np.bool_]:
        """Mask of first publications by asset and reference time."""
        order = np.argsort(self.published, kind="stable")
        names = self.assets or ("",) * len(self)
        seen: set[tuple[str, int]] = set()
        first = np.zeros(len(self), bool)
        for index, time in zip(order, self.times[order].astype(np.int64), strict=True):
            key = (names[index], int(time))
            first[index] = key not in seen
            seen.add(key)
        return first

    def _feature(
        self, compute: Any, suffix: str, lookback: int, channels: tuple[str, ...] | None = None
    ) -> PanelFeature:
        name = f"{self.name}_{suffix}"
        return PanelFeature(compute, name=name, lookback=lookback, channels=channels)

    def _check(self) -> None:
        count = len(self.times)
        parts = {"values": self.values, "published": self.published, "assets": self.assets}
        for name, part in parts.items():
            if part is not None and len(part) != count:
                raise ValueError(f"{name} must have {count} elements, got {len(part)}")
        if not np.isfinite(self.values).all():
            raise ValueError("values must be finite, got NaN or infinity; leave these events out")
        early = np.flatnonzero(self.published < self.times)
        if early.size:
            raise ValueError(
                f"published must not be before times, got {self.published[early[0]]} for "
                f"{self.times[early[0]]}"
            )


def _timestamps(name: str, values: ArrayLike) -> NDArray[np.datetime64]:
    times = np.asarray(values)
    if times.size == 0:
        times = times.astype("datetime64[ns]")
    if times.dtype.kind != "M" or times.ndim != 1 or np.isnat(times).any():
        raise ValueError(f"{name} must be a 1-d array of datetime64 without NaT, got {times.dtype}")
    return times.astype("datetime64[ns]")


def _delayed(times: NDArray[np.datetime64], delay: Any) -> NDArray[np.datetime64]:
    if is_duration(delay):
        return times + np.timedelta64(duration(delay), "ns")
    delays = np.asarray(delay)
    if delays.dtype.kind != "m" or delays.shape != times.shape:
        raise TypeError(f"delay must be a timedelta for each of {len(times)} events, got {delay!r}")
    return np.asarray(times + delays.astype("timedelta64[ns]"))


def _utc(column: Any) -> NDArray[np.datetime64]:
    """Column of times as UTC timestamps."""
    nw = optional_import("narwhals", "data", "Events.from_frame")

    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("ns"))
    if column.dtype == nw.Unknown:  # narwhals does not support every time zone of pandas
        return np.array([_moment(moment) for moment in column.to_list()], "datetime64[ns]")
    if getattr(column.dtype, "time_zone", None) is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return np.asarray(column.to_numpy()).astype("datetime64[ns]")


def _moment(moment: Any) -> Any:
    utc = moment.astimezone(timezone.utc).replace(tzinfo=None)
    # A pandas timestamp has nanoseconds, a datetime has not.
    return utc.to_datetime64() if hasattr(utc, "to_datetime64") else utc


@dataclass(frozen=True)
class _EventFeature:
    events: Events

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Self:
        return replace(self, events=self.events.perturb_after(time, rng))


@dataclass(frozen=True)
class Latest(_EventFeature):
    """Last published value with the latest reference time, and its age in days."""

    age: bool
    longest: int | None

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets by one or two channels; NaN where nothing is known."""
        times = data.calendar.nanoseconds
        result = np.full((len(data), len(data.assets), 1 + self.age), np.nan)
        for columns, indices in _by_asset(self.events, data):
            published, values = _newest(self.events, indices)
            row = published.searchsorted(times, "right") - 1
            age = times - published[row]
            known = row >= 0 if self.longest is None else (row >= 0) & (age <= self.longest)
            parts = [values[row], age / DAY][: 1 + self.age]
            result[:, columns] = np.where(known[:, None], np.stack(parts, 1), np.nan)[:, None]
        return result


@dataclass(frozen=True)
class Sum(_EventFeature):
    """Sum of first publications after the timestamp `rows` rows ago, up to that of the row."""

    rows: int

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets; NaN in the first rows, whose window is incomplete."""
        times = data.calendar.nanoseconds
        result = np.full((len(data), len(data.assets)), np.nan)
        result[self.rows :] = 0.0
        for columns, indices in _by_asset(self.events, data):
            for published, value in _firsts(self.events, indices):
                begin = int(times.searchsorted(published, "left"))
                result[begin : begin + self.rows, columns] += value
        return result


@dataclass(frozen=True)
class Decay(_EventFeature):
    """Sum of first publications with exponential decay."""

    half_life: int

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets; 0 where nothing is known."""
        times = data.calendar.nanoseconds
        result = np.zeros((len(data), len(data.assets)))
        for columns, indices in _by_asset(self.events, data):
            # Summed in order of publication, so that later events do not change the rounding.
            for published, value in _firsts(self.events, indices):
                first = int(times.searchsorted(published, "left"))
                end = published + MAX_HALF_LIVES * self.half_life
                last = int(times.searchsorted(end, "right"))
                halvings = (times[first:last] - published) / self.half_life
                result[first:last, columns] += (
                    value * stable_elementwise(np.exp2, -halvings)[:, None]
                )
        return result


def _by_asset(events: Events, data: MarketData) -> Iterator[tuple[list[int], NDArray[np.intp]]]:
    """Yield the columns of each asset and the indices of its events."""
    if events.assets is None:
        if len(events):
            yield list(range(len(data.assets))), np.arange(len(events))
        return
    names = np.asarray(events.assets, dtype=object)
    known = set(events.assets) & set(data.assets)
    if len(events) and not known:
        raise ValueError(
            f"events have none of the assets {', '.join(data.assets[:5])} of the panel, got "
            f"{', '.join(sorted(set(events.assets))[:5])}"
        )
    for name in sorted(known):
        yield [data.assets.index(name)], np.flatnonzero(names == name)


def _newest(events: Events, indices: NDArray[np.intp]) -> tuple[NDArray[np.int64], Floats]:
    """Publications whose reference time is not before that of an earlier publication."""
    order = indices[np.argsort(events.published[indices], kind="stable")]
    reference = events.times[order].astype(np.int64)
    order = order[reference >= np.maximum.accumulate(reference)]
    return events.published[order].astype(np.int64), events.values[order]


def _firsts(events: Events, indices: NDArray[np.intp]) -> Iterator[tuple[int, float]]:
    first = indices[events.firsts[indices]]
    order = first[np.argsort(events.published[first], kind="stable")]
    published = events.published[order].astype(np.int64)
    return zip(published.tolist(), events.values[order].tolist(), strict=True)
