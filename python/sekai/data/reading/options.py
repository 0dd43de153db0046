"""Reader options, and the columns of a source that they select."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

import numpy as np

from sekai.data.market_data import PRICE_FIELDS
from sekai.data.problems import Policies, Problem, Problems
from sekai.error import DataError
from sekai.storage.display import brief_repr
from sekai.storage.names import close_matches, suggestion

UNITS = ("s", "ms", "us", "ns")
TIME_NAMES = ("time", "date", "datetime", "timestamp")
ASSET_NAMES = ("symbol", "ticker", "asset", "tic", "code", "instrument")
VOLUME_FIELDS = ("volume", "trades", "turnover", "bid_volume", "ask_volume")
"""Fields that hold amounts: at least 0."""
MASKS = ("listed", "quoted", "tradable")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the readers; `MarketData.from_parquet` documents each."""

    time: str | None = None
    asset: str | None = None
    fields: Sequence[str] | None = None
    rename: Mapping[str, str] = dataclasses.field(default_factory=dict)
    field: str | None = None
    start: Any = None
    stop: Any = None
    assets: Sequence[str] | None = None
    market: Any = ()
    sectors: Any = None
    listing: Mapping[str, tuple[Any, Any]] | None = None
    timezone: str | None = None
    time_unit: str | None = None
    time_format: str | None = None
    known_after: timedelta = timedelta(0)
    policies: Policies = dataclasses.field(default_factory=Policies)
    batch_rows: int = 1 << 17

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if self.time_unit not in (None, *UNITS):
            raise ValueError(f"time_unit must be one of {UNITS}, got {self.time_unit!r}")
        if self.batch_rows < 1:
            raise ValueError(f"batch_rows must be at least 1, got {self.batch_rows}")
        if self.field is not None and (self.asset is not None or self.fields is not None):
            raise ValueError("field= means that columns are assets; omit asset= and fields=")
        for name in ("fields", "assets"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a list of names, got {getattr(self, name)!r}")
        if self.timezone is not None:
            _check_zone(self.timezone)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Create options from keyword arguments; None stands for the default."""
        known = {option.name for option in dataclasses.fields(cls)}
        if unknown := sorted(arguments.keys() - known):
            raise TypeError(f"unknown options {unknown}; expected some of {sorted(known)}")
        return cls(**{name: value for name, value in arguments.items() if value is not None})

    @property
    def market_columns(self) -> tuple[str, ...]:
        """Columns of the source that are market-wide series."""
        return tuple(self.market) if isinstance(self.market, list | tuple) else ()


def is_path(source: object) -> bool:
    """Return True if `source` names a file or a folder."""
    return isinstance(source, str | os.PathLike)


def nanoseconds(moment: Any, timezone: str | None) -> int:
    """Convert a date or time to nanoseconds in UTC; local time if it has no zone."""
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
        raise ValueError(f"invalid time {moment!r}; expected a date or a time")
    from sekai.data.reading.decoding import localize

    return int(localize(np.array([wall]), timezone).instants[0])


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown timezone {name!r}; expected a name such as 'America/New_York'"
        ) from error


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of the source by role."""

    time: str
    asset: str | None
    """None if each file or each column is an asset."""
    fields: Mapping[str, str]
    """Column by field."""
    masks: Mapping[str, str]
    market: Mapping[str, str]
    wide: Mapping[str, str]
    """Column by asset, if each asset is a column."""
    dropped: tuple[str, ...] = ()
    """Columns that hold a row index and are not read."""

    @property
    def keys(self) -> list[str]:
        """Columns of times and assets."""
        return [self.time] if self.asset is None else [self.time, self.asset]

    @property
    def all(self) -> list[str]:
        """All columns to read."""
        others = (self.fields, self.masks, self.market, self.wide)
        return [*self.keys, *(column for part in others for column in part.values())]


def find_columns(
    names: Sequence[str],
    options: Options,
    offered: Collection[str] = (),
    index: Mapping[str, str] | None = None,
) -> Columns:
    """Assign roles to columns, or raise a `DataError` that lists the columns.

    Args:
        names: columns of the source.
        options: options of the reader.
        offered: further columns that can be the time or the asset but not a field, such as
            partition folders.
        index: kind of each column that holds the index of a frame: `time`, `text`, or another. It
            is the time or the asset where no column is, and a field only if an option names it.
    """
    _reject_duplicates("columns", names)
    if unknown := sorted(set(options.rename) - {*names, *offered}):
        reject("column", f"rename= names unknown columns {unknown}; columns are {_join(names)}")
    called = {options.rename.get(name, name): name for name in names}
    _reject_duplicates("columns after rename=", [options.rename.get(name, name) for name in names])
    folders = {options.rename.get(name, name): name for name in offered if name not in names}
    unnamed = {name: kind for name, kind in (index or {}).items() if name not in _named(options)}
    time = _key("time", options.time, TIME_NAMES, called, folders)
    time = time if time is not None else _of_kind(unnamed, "time", "text")
    if time is None:
        reject("column", _no_time(called, unnamed))
    unnamed.pop(time, None)
    asset = None
    if options.field is None:
        asset = _key("asset", options.asset, ASSET_NAMES, called, folders)
        asset = asset if asset is not None else _of_kind(unnamed, "text")
    kept = {
        name: column
        for name, column in called.items()
        if column not in (time, asset) and column not in unnamed
    }
    dropped = tuple(name for name in unnamed if name != asset)
    if options.field is not None:
        return Columns(time, None, {}, {}, {}, {name: kept[name] for name in sorted(kept)}, dropped)
    masks = {name.lower(): kept.pop(name) for name in list(kept) if name.lower() in MASKS}
    market = {name: _column(name, kept, "market") for name in options.market_columns}
    rest = {name: column for name, column in kept.items() if name not in market}
    return Columns(time, asset, _fields(rest, options), masks, market, {}, dropped)


def _named(options: Options) -> set[str]:
    """Columns that an option names."""
    keys = [name for name in (options.time, options.asset) if name is not None]
    return {*keys, *options.rename, *(options.fields or ()), *options.market_columns}


def _of_kind(index: Mapping[str, str], *kinds: str) -> str | None:
    """First index column of the first of these kinds that there is."""
    return next((name for kind in kinds for name in index if index[name] == kind), None)


def _no_time(called: Iterable[str], index: Iterable[str]) -> str:
    stored = [repr(name) for name in index]
    remedy = f"; the index of the frame is in {_join(stored)}, without dates" if stored else ""
    return (
        f"missing time column; name it one of {TIME_NAMES} or pass time=, columns are "
        f"{_join(called)}{remedy}"
    )


def field_name(name: str) -> str:
    """Canonical spelling of well-known fields: `Adj Close` becomes `adj_close`."""
    plain = name.strip().lower().replace(" ", "_")
    return plain if plain in (*PRICE_FIELDS, *VOLUME_FIELDS) else name


def reject(kind: str, message: str, file: str | None = None) -> NoReturn:
    """Raise a `DataError` with one problem."""
    problems = Problems([Problem(kind, message, file=file)])
    raise DataError(str(problems), problems)


def _fields(rest: Mapping[str, str], options: Options) -> dict[str, str]:
    _reject_duplicates("fields", [field_name(name) for name in rest])
    fields = {field_name(name): column for name, column in rest.items()}
    if options.fields is not None:
        # A well-known field can be selected by either of its names.
        columns = {**fields, **rest}
        fields = {field_name(name): _column(name, columns, "fields") for name in options.fields}
    if not fields:
        reject("column", f"no fields; expected at least one numeric column among {_join(rest)}")
    return fields


def _key(
    role: str, name: str | None, usual: Sequence[str], *sources: Mapping[str, str]
) -> str | None:
    """Column of the time or the asset: the one passed, or the only one with a usual name."""
    if name is not None:
        every = {name: column for source in reversed(sources) for name, column in source.items()}
        return _column(name, {**{column: column for column in every.values()}, **every}, role)
    for source in sources:
        matches = [name for name in source if name.lower() in usual]
        if len(matches) > 1:
            reject("column", f"ambiguous {role} column: {_join(matches)}; pass {role}=")
        if matches:
            return source[matches[0]]
    return None


def _column(name: str, columns: Mapping[str, str], option: str) -> str:
    if name not in columns:
        hint = suggestion(close_matches(name, columns))
        reject(
            "column",
            f"no column {name!r} as passed by {option}={hint}; columns are {_join(columns)}",
        )
    return columns[name]


def _reject_duplicates(what: str, names: Sequence[str]) -> None:
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        reject("column", f"duplicate {what}: {', '.join(duplicates)}")


def _join(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
