"""Decode Arrow columns to NumPy: timestamps in UTC, numbers, flags, names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY, EPOCH, utc_offset
from sekai.data.reading.options import Options
from sekai.storage.optional import optional_import

Ints = NDArray[np.int64]
NO_TIME: int = np.iinfo(np.int64).min
"""Missing timestamp (NaT)."""

WALL = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}([.]\d{1,9})?)?)?"
OFFSET = r"(?P<offset>Z|[+-]\d{2}:?\d{2}|[+-]\d{2})"
UTC_NAMES = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "+0000", "+00", "-00:00")
NUMBER = r"^[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d+)?$|^(?i:[+-]?(inf|infinity|nan))$"
MISSING = ("", "na", "n/a", "#n/a", "null", "none", "nan", "-")
FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
PURPOSE = "reading and writing market data"


def arrow() -> Any:
    """Import `pyarrow`."""
    return optional_import("pyarrow", "data", PURPOSE)


def compute() -> Any:
    """Import `pyarrow.compute`."""
    return optional_import("pyarrow.compute", "data", PURPOSE)


@dataclass(slots=True)
class Timestamps:
    """Timestamps of some rows, and their problems."""

    instants: Ints
    """Nanoseconds since 1970 in UTC, `NO_TIME` where missing."""
    zones: set[str] = field(default_factory=set)
    """Time zones or offsets in the column; `naive` for times of day without one."""
    wrong: list[tuple[str, int, str]] = field(default_factory=list)
    """Kind of problem, row, and description."""


def decode_timestamps(column: Any, options: Options) -> Timestamps:
    """Decode timestamps of an Arrow column; raise `TypeError` if its type is not supported."""
    pa = arrow()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    if pa.types.is_integer(kind) and options.time_unit is not None:
        column, kind = _counted(column, options.time_unit)
    elif pa.types.is_integer(kind) and options.time_format is not None:
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        timestamps = _from_text(column, options)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        timestamps = _from_time(column, getattr(kind, "tz", None), options)
    else:
        expected = "time_unit= or time_format=" if pa.types.is_integer(kind) else "dates or times"
        raise TypeError(f"column has type {kind}; expected {expected}")
    return timestamps


def localize(wall: Ints, timezone_name: str | None) -> Timestamps:
    """Convert local times of a time zone to timestamps in UTC."""
    if timezone_name is None or timezone_name in UTC_NAMES:
        return Timestamps(wall.copy())
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(timezone_name)
    valid = np.flatnonzero(wall != NO_TIME)
    days, index = np.unique(wall[valid] // DAY, return_inverse=True)
    before, after = (
        np.array([utc_offset((int(day) + shift) * DAY, zone) for day in days], np.int64)
        for shift in (-1, 2)
    )
    timestamps = Timestamps(wall.copy())
    timestamps.instants[valid] -= before[index]
    # Only near a clock change does the offset depend on the time of day.
    for row in valid[(before != after)[index]]:
        timestamps.instants[row] = _localize_one(int(wall[row]), zone, int(row), timestamps)
    return timestamps


def _localize_one(wall: int, zone: Any, row: int, timestamps: Timestamps) -> int:
    local = EPOCH.replace(tzinfo=None) + timedelta(microseconds=wall // 1000)
    first, second = (_offset(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if first != second:
        problem = "skipped" if first < second else "ambiguous"
        timestamps.wrong.append(("local_time", row, f"{problem} local time {local} in {zone}"))
    return wall - first


def _offset(local: datetime) -> int:
    return round((local.utcoffset() or timedelta(0)).total_seconds()) * 10**9


def _counted(column: Any, unit: str) -> tuple[Any, Any]:
    pa = arrow()
    kind = pa.timestamp(unit, "UTC")
    return column.cast(pa.int64()).cast(kind), kind


def _from_time(column: Any, zone: str | None, options: Options) -> Timestamps:
    pa = arrow()
    try:
        in_nanoseconds = column.cast(pa.timestamp("ns", zone))
    except pa.ArrowInvalid as error:
        raise TypeError(f"timestamps must be within the years 1678 to 2261 ({error})") from error
    return _finish(_integers(in_nanoseconds), zone, options)


def _finish(timestamps: Ints, zone: str | None, options: Options) -> Timestamps:
    later = timestamps + round(options.known_after / timedelta(microseconds=1)) * 1000
    later[timestamps == NO_TIME] = NO_TIME
    if zone is not None:
        return Timestamps(later, {"UTC" if zone in UTC_NAMES else zone})
    result = localize(later, options.timezone)
    # Dates are unambiguous without a zone, times of day are not.
    if np.any((timestamps % DAY != 0) & (timestamps != NO_TIME)):
        result.zones.add("naive")
    return result


def _from_text(column: Any, options: Options) -> Timestamps:
    pa = arrow()
    pc = compute()
    text = pc.utf8_trim_whitespace(column)
    if options.time_format is not None:
        parsed = pc.strptime(text, format=options.time_format, unit="us", error_is_null=True)
        timestamps = _finish(_integers(parsed.cast(pa.timestamp("ns"))), None, options)
        return _unread(timestamps, text)
    try:
        return _finish(_integers(text.cast(pa.timestamp("ns"))), None, options)
    except pa.ArrowInvalid:
        return _from_mixed_text(text, options)


def _from_mixed_text(text: Any, options: Options) -> Timestamps:
    """Decode text of which some has an offset, or is malformed."""
    pa = arrow()
    pc = compute()
    result = Timestamps(np.full(len(text), NO_TIME, np.int64))
    zoned = pc.match_substring_regex(text, f"^{WALL}{OFFSET}$")
    naive = pc.match_substring_regex(text, f"^{WALL}$")
    for mask, zone in ((naive, None), (zoned, "UTC")):
        rows = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))
        part = text.take(pa.array(rows))
        decoded = _finish(_cast_each(part, pa.timestamp("ns", zone)), zone, options)
        result.instants[rows] = decoded.instants
        result.wrong += [(kind, int(rows[row]), message) for kind, row, message in decoded.wrong]
        if zone is None:
            result.zones |= decoded.zones
        elif len(rows):
            offsets = pc.unique(pc.extract_regex(part, f"{OFFSET}$").field("offset")).to_pylist()
            result.zones |= {"UTC" if offset in UTC_NAMES else offset for offset in offsets}
    return _unread(result, text)


def _cast_each(text: Any, kind: Any) -> Ints:
    """Cast text to timestamps, one by one if one of them is invalid."""
    pa = arrow()
    try:
        return _integers(text.cast(kind))
    except pa.ArrowInvalid:
        return np.array([_cast_one(value, kind) for value in text], np.int64)


def _cast_one(text: Any, kind: Any) -> int:
    pa = arrow()
    try:
        return int(text.cast(kind).value)
    except pa.ArrowInvalid:
        return NO_TIME


def _unread(timestamps: Timestamps, text: Any) -> Timestamps:
    for row in np.flatnonzero(timestamps.instants == NO_TIME):
        value = text[int(row)].as_py()
        if value is not None:
            timestamps.wrong.append(("key", int(row), f"malformed time {value!r}"))
    return timestamps


def _integers(column: Any) -> Ints:
    pa = arrow()
    filled = column.cast(pa.int64()).fill_null(NO_TIME)
    integers: Ints = filled.to_numpy().copy()
    return integers


def decode_numbers(column: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Decode numbers, NaN where missing; also return the rows with text that is not a number."""
    pa = arrow()
    column, kind = _plain(column)
    if column_kind(kind) == "text":
        return _numbers_from_text(column)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), np.array([], np.int64)
    return _floats(column.cast(pa.float64(), safe=False)), np.array([], np.int64)


def column_kind(kind: Any) -> str:
    """Kind of an Arrow type: `numbers`, `text` that may be numbers, or `neither`."""
    pa = arrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_null,
    )
    return "numbers" if any(test(kind) for test in tests) else "neither"


def decode_flags(column: Any) -> NDArray[np.bool_]:
    """Decode flags; raise `TypeError` if a value is not true or false."""
    pa = arrow()
    pc = compute()
    column, kind = _plain(column)
    if not pa.types.is_boolean(kind):
        text = pc.utf8_lower(column.cast(pa.string()))
        invalid = [value for value in pc.unique(text).to_pylist() if value not in FLAGS]
        if invalid:
            raise TypeError(f"values must be true or false, got {invalid[:3]}")
        column = pc.is_in(text, pa.array([name for name, flag in FLAGS.items() if flag]))
    if column.null_count:
        raise TypeError("values must be true or false, got missing values")
    flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return flags.astype(np.bool_)


def decode_names(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Decode names to indices and a list of names; -1 where missing."""
    pa = arrow()
    pc = compute()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not (pa.types.is_dictionary(column.type) and column_kind(column.type) == "text"):
        column, kind = _plain(column)
        if pa.types.is_integer(kind):
            column = column.cast(pa.string())
        elif column_kind(kind) != "text":
            raise TypeError(f"column has type {kind}; expected names")
        column = pc.dictionary_encode(column)
    names = [(name or "").strip() for name in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(-1).to_numpy().astype(np.int64)
    empty = [index for index, name in enumerate(names) if not name]
    if empty:
        codes[np.isin(codes, empty)] = -1
    return codes, names


def _plain(column: Any) -> tuple[Any, Any]:
    """Column as one array without a dictionary, and its type."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column, column.type


def _numbers_from_text(column: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    pa = arrow()
    pc = compute()
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(text), pa.array(MISSING, text.type))
    text = pc.if_else(missing, pa.scalar(None, text.type), text)
    readable = pc.match_substring_regex(text, NUMBER).fill_null(False)
    wrong = pc.and_(pc.is_valid(text), pc.invert(readable)).to_numpy(zero_copy_only=False)
    numbers = pc.if_else(readable, text, pa.scalar(None, text.type)).cast(pa.float64())
    return _floats(numbers), np.flatnonzero(wrong)


def _floats(column: Any) -> NDArray[np.float64]:
    pa = arrow()
    filled = column.fill_null(pa.scalar(float("nan"), column.type))
    floats: NDArray[np.float64] = filled.to_numpy(zero_copy_only=False)
    return floats
