"""What a user says about the source: columns, zone, what to take, and what else is known."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

import numpy as np

from sekai.data.policies import Policies

__all__ = ["Options", "ReadOptions", "is_path", "nanoseconds"]

UNITS = ("s", "ms", "us", "ns")


class ReadOptions(TypedDict, total=False):
    """The keywords of every reader; see `Options` for what each says."""

    time: str
    asset: str
    fields: Sequence[str]
    rename: Mapping[str, str]
    field: str
    start: Any
    stop: Any
    assets: Sequence[str]
    market: Any
    sectors: Any
    listing: Mapping[str, tuple[Any, Any]]
    timezone: str
    time_unit: str
    time_format: str
    known_after: timedelta
    policies: Policies
    batch_rows: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to read a source."""

    time: str | None = None
    """The column of stamps; found by its name if it is time, date, datetime or timestamp."""
    asset: str | None = None
    """The column of assets; found if it is symbol, ticker, asset, tic, code or instrument. If
    there is none, each file is one asset and has its name."""
    fields: Sequence[str] | None = None
    """The columns to take as fields, by their names after `rename`; all others if not given."""
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """New names of columns."""
    field: str | None = None
    """Each column but the time is an asset, and its values are this field. A hole in such a
    table is a row that is not there."""
    start: Any = None
    """Take rows known at this time or later: a date or a time, in `timezone` if it names none."""
    stop: Any = None
    """Take rows known before this time."""
    assets: Sequence[str] | None = None
    """The assets to take, in this order; all in the order of their names if not given."""
    market: Any = ()
    """Series of the whole market: columns that are the same for all assets, or another frame or
    file of a time column and one column a series."""
    sectors: Any = None
    """The sector of each asset: a mapping, or a frame or file with a column for each."""
    listing: Mapping[str, tuple[Any, Any]] | None = None
    """First and last time at which an asset is listed; None for an open end."""
    timezone: str | None = None
    """Where stamps without a zone are from, and where days begin and end."""
    time_unit: str | None = None
    """What integer stamps count since 1970 in UTC: s, ms, us or ns."""
    time_format: str | None = None
    """How stamps are written if not as 2020-01-31 or 2020-01-31 16:00:00, such as %Y%m%d."""
    known_after: timedelta = timedelta(0)
    """How long after its stamp a row is known: a minute for minutes stamped at their beginning."""
    policies: Policies = dataclasses.field(default_factory=Policies)
    """What to do about problems."""
    batch_rows: int = 1 << 17
    """How many rows of a Parquet file are in memory at a time."""

    def __post_init__(self) -> None:
        if self.time_unit not in (None, *UNITS):
            raise ValueError(f"time_unit must be one of {UNITS}, was {self.time_unit!r}")
        if self.batch_rows < 1:
            raise ValueError(f"batch_rows must be at least 1 row, was {self.batch_rows}")
        if self.field is not None and (self.asset is not None or self.fields is not None):
            raise ValueError("field= says that columns are assets: leave out asset= and fields=")
        for name in ("fields", "assets", "market"):
            if isinstance(getattr(self, name), str) and name != "market":
                raise TypeError(f"{name} must be a list of names, was {getattr(self, name)!r}")
        if self.timezone is not None:
            _check_zone(self.timezone)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options of a call; a name that is none is refused with those that are."""
        known = {option.name for option in dataclasses.fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"options among {sorted(known)} were wanted, found {unknown}")
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def market_columns(self) -> tuple[str, ...]:
        """The columns of the source that are series of the whole market."""
        named = isinstance(self.market, list | tuple)
        return tuple(self.market) if named else ()


def is_path(source: object) -> bool:
    """Whether something names a file or a folder."""
    return isinstance(source, str | os.PathLike)


def nanoseconds(moment: Any, timezone: str | None) -> int:
    """A moment that a user named, since 1970 in UTC; local if it has no zone of its own."""
    from datetime import datetime

    zone = getattr(moment, "tzinfo", None)
    if isinstance(moment, str):
        parsed = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        zone, moment = parsed.tzinfo, parsed
    if zone is not None:
        offset = moment.utcoffset()
        naive = np.datetime64(moment.replace(tzinfo=None)) - np.timedelta64(offset)
        return int(naive.astype("datetime64[ns]").astype(np.int64))
    wall = np.datetime64(moment).astype("datetime64[ns]").astype(np.int64)
    if np.datetime64(moment) == np.datetime64("NaT"):
        raise ValueError(f"a date or a time was wanted, found {moment!r}")
    from sekai.data.reading.stamps import localised

    return int(localised(np.array([wall]), timezone).instants[0])


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"timezone must be the name of one, such as 'America/New_York', was {name!r}"
        ) from error
