"""Columns of stamps, as nanoseconds in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, EPOCH, utc_offset
from sekai.data.reading.extras import arrow, compute
from sekai.data.reading.options import Options

__all__ = ["NO_TIME", "Stamps", "decode_stamps", "localised"]

Ints = NDArray[np.int64]
NO_TIME: int = np.iinfo(np.int64).min
"""What stands for a stamp that is none, as in NumPy."""

WALL = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}([.]\d{1,9})?)?)?"
OFFSET = r"(?P<offset>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})"
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "+0000", "+00", "-00:00")


@dataclass(slots=True)
class Stamps:
    """The stamps of some rows, and what is wrong with them."""

    instants: Ints
    """Nanoseconds since 1970 in UTC, `NO_TIME` where there is none."""
    zones: set[str] = field(default_factory=set)
    """The zones or offsets that were found; `naive` for times of day without one."""
    wrong: list[tuple[str, int, str]] = field(default_factory=list)
    """The kind of problem, the row, and what was found there."""


def decode_stamps(column: Any, options: Options) -> Stamps:
    """Stamps of an Arrow column; raises `TypeError` if it cannot be one."""
    pa = arrow()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    if pa.types.is_integer(kind) and options.time_unit is not None:
        column, kind = _counted(column, options.time_unit)
    elif pa.types.is_integer(kind) and options.time_format is not None:
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        stamps = _from_text(column, options)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        stamps = _from_time(column, getattr(kind, "tz", None), options)
    else:
        wanted = "time_unit= or time_format=" if pa.types.is_integer(kind) else "dates or times"
        raise TypeError(f"a column of {kind}, {wanted} wanted")
    return stamps


def localised(wall: Ints, timezone_name: str | None) -> Stamps:
    """The instants at which clocks of a zone showed some times."""
    if timezone_name is None or timezone_name in UTC_NAMES:
        return Stamps(wall.copy())
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(timezone_name)
    there = np.flatnonzero(wall != NO_TIME)
    days, places = np.unique(wall[there] // DAY, return_inverse=True)
    before, after = (
        np.array([utc_offset((int(day) + shift) * DAY, zone) for day in days], np.int64)
        for shift in (-1, 2)
    )
    stamps = Stamps(wall.copy())
    stamps.instants[there] -= before[places]
    # Only near days on which the clock was set does the offset depend on the time of day.
    for row in there[(before != after)[places]]:
        stamps.instants[row] = _one(int(wall[row]), zone, int(row), stamps)
    return stamps


def _one(wall: int, zone: Any, row: int, stamps: Stamps) -> int:
    moment = EPOCH.replace(tzinfo=None) + timedelta(microseconds=wall // 1000)
    first, second = (_whole(moment.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
    if first != second:
        fault = "no clock showed this time" if first < second else "clocks showed this time twice"
        stamps.wrong.append(("local_time", row, f"{moment} in {zone}: {fault}"))
    return wall - first


def _whole(offset: timedelta | None) -> int:
    return round((offset or timedelta(0)).total_seconds()) * 10**9


def _counted(column: Any, unit: str) -> tuple[Any, Any]:
    pa = arrow()
    kind = pa.timestamp(unit, "UTC")
    return column.cast(pa.int64()).cast(kind), kind


def _from_time(column: Any, zone: str | None, options: Options) -> Stamps:
    pa = arrow()
    try:
        in_nanoseconds = column.cast(pa.timestamp("ns", zone))
    except pa.ArrowInvalid as error:
        raise TypeError(f"stamps outside of the years 1678 to 2261 ({error})") from error
    return _finish(_integers(in_nanoseconds), zone, options)


def _finish(stamps: Ints, zone: str | None, options: Options) -> Stamps:
    later = stamps + round(options.known_after / timedelta(microseconds=1)) * 1000
    later[stamps == NO_TIME] = NO_TIME
    if zone is not None:
        return Stamps(later, {"UTC" if zone in UTC_NAMES else zone})
    found = localised(later, options.timezone)
    # A date needs no zone to be told from another; a time of day does.
    if np.any((stamps % DAY != 0) & (stamps != NO_TIME)):
        found.zones.add("naive")
    return found


def _from_text(column: Any, options: Options) -> Stamps:
    pa = arrow()
    pc = compute()
    text = pc.utf8_trim_whitespace(column)
    if options.time_format is not None:
        parsed = pc.strptime(text, format=options.time_format, unit="us", error_is_null=True)
        stamps = _finish(_integers(parsed.cast(pa.timestamp("ns"))), None, options)
        return _unread(stamps, text)
    try:
        return _finish(_integers(text.cast(pa.timestamp("ns"))), None, options)
    except pa.ArrowInvalid:
        return _from_mixed_text(text, options)


def _from_mixed_text(text: Any, options: Options) -> Stamps:
    """Stamps of which some have an offset, or cannot be read at all."""
    pa = arrow()
    pc = compute()
    whole = Stamps(np.full(len(text), NO_TIME, np.int64))
    zoned = pc.match_substring_regex(text, f"^{WALL}{OFFSET}$")
    naive = pc.match_substring_regex(text, f"^{WALL}$")
    for chosen, zone in ((naive, None), (zoned, "UTC")):
        places = np.flatnonzero(chosen.fill_null(False).to_numpy(zero_copy_only=False))
        part = text.take(pa.array(places))
        some = _finish(_cast_each(part, pa.timestamp("ns", zone)), zone, options)
        whole.instants[places] = some.instants
        whole.wrong += [(kind, int(places[row]), found) for kind, row, found in some.wrong]
        if zone is None:
            whole.zones |= some.zones
        elif len(places):
            offsets = pc.extract_regex(part, f"{OFFSET}$").field("offset")
            found = set(pc.unique(offsets).to_pylist())
            whole.zones |= {"UTC" if offset in UTC_NAMES else offset for offset in found}
    return _unread(whole, text)


def _cast_each(text: Any, kind: Any) -> Ints:
    """Stamps of texts that look like some: one by one if one of them is not."""
    pa = arrow()
    try:
        return _integers(text.cast(kind))
    except pa.ArrowInvalid:
        return np.array([_cast_one(one, kind) for one in text], np.int64)


def _cast_one(text: Any, kind: Any) -> int:
    pa = arrow()
    try:
        return int(text.cast(kind).value)
    except pa.ArrowInvalid:
        return NO_TIME


def _unread(stamps: Stamps, text: Any) -> Stamps:
    for row in np.flatnonzero(stamps.instants == NO_TIME):
        found = text[int(row)].as_py()
        if found is not None:
            stamps.wrong.append(("key", int(row), f"the time {found!r}, which cannot be read"))
    return stamps


def _integers(column: Any) -> Ints:
    pa = arrow()
    filled = column.cast(pa.int64()).fill_null(NO_TIME)
    integers: Ints = filled.to_numpy().copy()
    return integers
