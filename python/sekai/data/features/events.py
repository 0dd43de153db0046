"""What becomes known between rows: news, sentiment, fundamentals, macro series.

An event is about a time and is published later. A row knows what was published up to its stamp,
the stamp itself included. A revision is a later publication about the same time: until then the
value is the one that was published first.

    earnings = Events(quarter_ends, surprise, assets=names, delay="45d")
    Pipeline(["log_return", earnings.latest(age=True)])
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.durations import Duration, duration, is_duration
from sekai.data.features.feature import PanelFeature
from sekai.data.market_data import frozen
from sekai.error import MissingExtraError

__all__ = ["Events"]

Floats = NDArray[np.float64]
Nanoseconds = NDArray[np.int64]


class Events:
    """Values of assets or of the whole market, with the times at which they became known."""

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
        """Take events in any order.

        Args:
            times: what time each event is about, in UTC.
            values: a number each.
            assets: which asset each is about; None if all are about the whole market.
            delay: how long after its time it became known, `45d` for all or a timedelta each.
            published: when it became known, instead of `delay`. One of the two is needed: 0 by
                default would be the mistake that this class is there to prevent.
            name: what its features are called.
        """
        if (delay is None) == (published is None):
            raise TypeError("either delay or published was wanted: '0s' if there is no delay")
        self.name = name
        self.times = frozen(_stamps("times", times))
        self.values = frozen(np.asarray(values, np.float64))
        self.assets = None if assets is None else tuple(assets)
        stamps = _delayed(self.times, delay) if published is None else published
        self.published = frozen(_stamps("published", stamps))
        self._check()

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
        """Take the columns of a frame of pandas, polars or arrow; the arguments name them."""
        try:
            import narwhals as nw
        except ImportError as error:
            raise MissingExtraError.of("narwhals", "data", "Events.from_frame") from error
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
        """How many publications there are."""
        return len(self.times)

    def latest(self, *, age: bool = False, longest: Duration | None = None) -> PanelFeature:
        """The value about the latest time that is known, as it was last published.

        Args:
            age: show the days since that publication as well.
            longest: how long after its publication a value is shown; None for ever.
        """
        from sekai.data.features.event_features import Latest

        limit = None if longest is None else duration(longest)
        channels = ("value", "age") if age else None
        return self._feature(Latest(self, age, limit), "latest", 1, channels)

    def sum(self, rows: int) -> PanelFeature:
        """The sum of what was first published in the last `rows` rows; revisions do not count."""
        from sekai.data.features.event_features import Sum

        if rows < 1:
            raise ValueError(f"at least 1 row was wanted, found {rows}")
        return self._feature(Sum(self, rows), f"sum_{rows}", rows + 1)

    def decay(self, half_life: Duration) -> PanelFeature:
        """The sum of what was first published, each value halved in every `half_life`."""
        from sekai.data.features.event_features import Decay

        length = duration(half_life)
        if not length:
            raise ValueError("a half-life above 0 was wanted, found 0")
        return self._feature(Decay(self, length), "decay", 1)

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Events:
        """The same events up to `time`; others published after it, some of them later."""
        later = self.published > np.datetime64(time, "ns")
        scale = float(np.abs(self.values).max(initial=1.0))
        values = np.where(later, rng.normal(0, 2 * scale, len(self)), self.values)
        put_off = np.where(later & (rng.random(len(self)) < 0.3), rng.integers(1, 31, len(self)), 0)
        published = self.published + put_off.astype("timedelta64[D]")
        return Events(self.times, values, assets=self.assets, published=published, name=self.name)

    @cached_property
    def firsts(self) -> NDArray[np.bool_]:
        """Which publications are the first about their asset and time."""
        order = np.argsort(self.published, kind="stable")
        names = self.assets or ("",) * len(self)
        seen: set[tuple[str, int]] = set()
        first = np.zeros(len(self), bool)
        for place, stamp in zip(order, self.times[order].astype(np.int64), strict=True):
            about = (names[place], int(stamp))
            first[place] = about not in seen
            seen.add(about)
        return first

    def _feature(
        self, compute: Any, what: str, lookback: int, channels: tuple[str, ...] | None = None
    ) -> PanelFeature:
        name = f"{self.name}_{what}"
        return PanelFeature(compute, name=name, lookback=lookback, channels=channels)

    def _check(self) -> None:
        count = len(self.times)
        parts = {"values": self.values, "published": self.published, "assets": self.assets}
        for name, part in parts.items():
            if part is not None and len(part) != count:
                raise ValueError(f"{name} of {count} events was wanted, found {len(part)}")
        if not np.isfinite(self.values).all():
            raise ValueError("numbers were wanted as values, found NaN or infinity: leave them out")
        early = np.flatnonzero(self.published < self.times)
        if early.size:
            raise ValueError(
                f"publication at or after the time of an event was wanted, found "
                f"{self.published[early[0]]} of {self.times[early[0]]}"
            )


def _stamps(name: str, given: ArrayLike) -> NDArray[np.datetime64]:
    stamps = np.asarray(given)
    if stamps.size == 0:
        stamps = stamps.astype("datetime64[ns]")
    if stamps.dtype.kind != "M" or stamps.ndim != 1 or np.isnat(stamps).any():
        raise ValueError(f"{name} must be a row of datetime64 without NaT, was of {stamps.dtype}")
    return stamps.astype("datetime64[ns]")


def _delayed(times: NDArray[np.datetime64], delay: Any) -> NDArray[np.datetime64]:
    if is_duration(delay):
        return times + np.timedelta64(duration(delay), "ns")
    each = np.asarray(delay)
    if each.dtype.kind != "m" or each.shape != times.shape:
        raise TypeError(f"a timedelta for each of {len(times)} events was wanted, found {delay!r}")
    return np.asarray(times + each.astype("timedelta64[ns]"))


def _utc(column: Any) -> NDArray[np.datetime64]:
    """A column of times as stamps in UTC."""
    import narwhals as nw

    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("ns"))
    if column.dtype == nw.Unknown:  # narwhals does not know every zone that pandas has
        return np.array([_moment(moment) for moment in column.to_list()], "datetime64[ns]")
    if getattr(column.dtype, "time_zone", None) is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return np.asarray(column.to_numpy()).astype("datetime64[ns]")


def _moment(moment: Any) -> Any:
    utc = moment.astimezone(timezone.utc).replace(tzinfo=None)
    # A stamp of pandas has nanoseconds that a datetime has not.
    return utc.to_datetime64() if hasattr(utc, "to_datetime64") else utc
