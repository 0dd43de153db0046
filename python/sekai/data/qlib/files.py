"""Files of a Qlib provider directory: paths, calendars, instruments, feature files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sekai.error import DataError

FREQUENCY = re.compile(r"(\d*)(month|mon|week|w|day|d|minute|min)")
UNITS = {"mon": "month", "w": "week", "d": "day", "minute": "min"}
RESERVED = {"con", "prn", "aux", "nul"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}
"""Device names of Windows; Qlib prefixes them with `_qlib_`."""
UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]")
TIMESTAMP = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?"
CALENDAR_LINES = re.compile(rf"(?:{TIMESTAMP}\n)+")
CALENDAR_LINE = re.compile(TIMESTAMP)
FIRST, LAST = (np.datetime64(year, "s") for year in ("1678", "2262"))
"""Range of timestamps in nanoseconds."""
FLOAT32 = np.dtype("<f4")
MAX_START = 1 << 24
"""Largest integer up to which every integer is exact in float32."""

Floats32 = NDArray[np.float32]
Times = NDArray[np.datetime64]
Range = tuple[np.datetime64, np.datetime64]
"""First and last timestamp at which a symbol is listed, inclusive."""
Ranges = tuple[Range, ...]
Instruments = Mapping[str, Ranges]


def canonical_frequency(freq: str) -> str:
    """Frequency as in file names: `day`, `1min`, `5min`; `1d` and `d` are `day`."""
    match = FREQUENCY.fullmatch(freq.lower()) if isinstance(freq, str) else None
    if match is None or match[1].strip("0") == "" != match[1]:
        raise DataError(f"unknown frequency {freq!r}; expected one such as 'day', '1min', '5min'")
    unit = UNITS.get(match[2], match[2])
    count = int(match[1] or 1)
    return unit if unit == "day" and count == 1 else f"{count}{unit}"


def checked_name(name: str, what: str) -> str:
    """Validate the name of a symbol, field or market as a file name."""
    if (
        not isinstance(name, str)
        or not name.strip()
        or name != name.strip()
        or name.startswith(".")
        or name.endswith(".")
        or len(name) > 128
        or UNSAFE.search(name)
    ):
        raise DataError(
            f"invalid {what} name {name!r}; expected letters, digits and signs such as _ - . that "
            f"are allowed in file names"
        )
    return name


def frequencies_in(root: str) -> list[str]:
    """Frequencies with a calendar in a root folder."""
    stems = (file.stem for file in Path(root, "calendars").glob("*.txt"))
    return sorted(stem for stem in stems if not stem.endswith("_future") and stem[0] != ".")


@lru_cache(maxsize=1024)
def calendar_path(root: str, freq: str, future: bool = False) -> str:
    """Path of a calendar file."""
    return os.path.join(root, "calendars", f"{freq}{'_future' if future else ''}.txt")


@lru_cache(maxsize=1024)
def instruments_path(root: str, market: str) -> str:
    """Path of the instruments file of a market."""
    return os.path.join(root, "instruments", f"{checked_name(market, 'market').lower()}.txt")


def feature_folder(root: str, symbol: str) -> str:
    """Folder of a symbol, in lower case."""
    name = checked_name(symbol, "symbol").lower()
    return os.path.join(root, "features", f"_qlib_{name}" if name in RESERVED else name)


@lru_cache(maxsize=1 << 16)
def feature_path(root: str, symbol: str, field: str, freq: str) -> str:
    """Path of a field such as `$close` of a symbol, in lower case."""
    name = checked_name(field.removeprefix("$"), "field").lower()
    return os.path.join(feature_folder(root, symbol), f"{name}.{freq}.bin")


def read_text(path: str, what: str) -> str:
    """Read a small text file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"missing {what} {path!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{what} {path!r} cannot be read: {error}") from error


def read_calendar(path: str) -> Times:
    """Read the timestamps of a calendar in nanoseconds, as a read-only array."""
    text = read_text(path, "calendar")
    lines = [line.strip() for line in text.splitlines()]
    filled = [line for line in lines if line]
    if not filled:
        raise DataError(f"calendar {path!r} is empty; expected at least one timestamp")
    if CALENDAR_LINES.fullmatch("\n".join([*filled, ""])) is None:
        _reject_line(path, lines)
    try:
        seconds = np.array(filled, dtype="datetime64[s]")
    except ValueError:
        _reject_line(path, lines)
    times: Times = seconds.astype("datetime64[ns]")
    wrong = np.flatnonzero(np.diff(seconds) <= np.timedelta64(0))
    if len(wrong) or seconds[0] < FIRST or seconds[-1] >= LAST:
        index = int(wrong[0]) + 1 if len(wrong) else 0
        number = [number for number, line in enumerate(lines, 1) if line][index]
        raise DataError(
            f"{path}:{number}: timestamps must be ascending within the years 1678 to 2261, got "
            f"{filled[index]!r}"
        )
    times.flags.writeable = False
    return times


def parse_timestamp(text: str) -> np.datetime64 | None:
    """Parse a timestamp; return None if it is malformed."""
    if CALENDAR_LINE.fullmatch(text) is None:
        return None
    try:
        seconds = np.datetime64(text, "s")
    except ValueError:
        return None
    return seconds.astype("datetime64[ns]") if FIRST <= seconds < LAST else None


def calendar_text(times: Times, freq: str) -> list[str]:
    """Format timestamps: days without a time of day, others to the second."""
    if freq.endswith(("day", "week", "month")):
        return [str(day) for day in times.astype("datetime64[D]")]
    return [str(second).replace("T", " ") for second in times.astype("datetime64[s]")]


def _reject_line(path: str, lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if line and parse_timestamp(line) is None:
            raise DataError(
                f"{path}:{number}: malformed timestamp {line[:40]!r}; expected one such as "
                f"2020-01-31 or 2020-01-31 09:30:00"
            )
    raise AssertionError("every line of the rejected calendar is valid")


def read_instruments(path: str) -> dict[str, Ranges]:
    """Read the listing ranges of each symbol, in the order of the file."""
    instruments: dict[str, list[Range]] = {}
    folders: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "instruments file").splitlines(), 1):
        if line.strip():
            symbol, listed = _parse_instrument(f"{path}:{number}", line)
            other = folders.setdefault(symbol.lower(), symbol)
            if other != symbol:
                raise DataError(
                    f"{path}:{number}: {symbol!r} and {other!r} share a folder, because folders "
                    f"ignore case; use one spelling"
                )
            instruments.setdefault(symbol, []).append(listed)
    return {symbol: tuple(ranges) for symbol, ranges in instruments.items()}


def listed_slots(
    calendar: NDArray[np.datetime64], ranges: Sequence[Range], first: int, stop: int
) -> NDArray[np.bool_]:
    """Mask of the calendar slots from `first` to `stop` within some range."""
    listed = np.zeros(stop - first, np.bool_)
    for begin, end in ranges:
        left = int(np.searchsorted(calendar, begin, "left")) - first
        right = int(np.searchsorted(calendar, end, "right")) - first
        listed[max(0, left) : max(0, right)] = True
    return listed


def _parse_instrument(where: str, line: str) -> tuple[str, Range]:
    parts = [part.strip() for part in line.split("\t")]
    times = [parse_timestamp(part) for part in parts[1:3]]
    first, last = times if len(times) == 2 else (None, None)
    if first is None or last is None:
        raise DataError(
            f"{where}: malformed line {line[:80]!r}; expected symbol, first and last timestamp "
            f"separated by tabs"
        )
    if first > last:
        raise DataError(f"{where}: first timestamp must not be after the last, got {line[:80]!r}")
    try:
        return checked_name(parts[0], "symbol"), (first, last)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """Header of a feature file: a start index and a float32 per calendar slot."""

    path: str
    start: int
    """Calendar slot of the first value."""
    count: int

    @classmethod
    def opened(cls, path: str, slots: int) -> FeatureFile:
        """Read the header of a file; see `read` for `slots`."""
        with _open(path) as file:
            return cls._head(path, os.read(file, FLOAT32.itemsize), os.fstat(file).st_size, slots)

    @classmethod
    def read(cls, path: str, slots: int, first: int, stop: int) -> Floats32:
        """Read the values of some slots, NaN where the file has none.

        Args:
            path: file; `FileNotFoundError` if it is missing.
            slots: number of slots in the calendar.
            first: first slot.
            stop: slot after the last.
        """
        with _open(path) as file:
            size = os.fstat(file).st_size
            head = cls._head(path, os.read(file, FLOAT32.itemsize), size, slots)
            begin = min(max(first, head.start), stop)
            end = max(begin, min(stop, head.start + head.count))
            expected = (end - begin) * FLOAT32.itemsize
            os.lseek(file, (1 + begin - head.start) * FLOAT32.itemsize, os.SEEK_SET)
            content = os.read(file, expected)
        if len(content) != expected:
            raise DataError(f"{path}: truncated, expected {expected} bytes, got {len(content)}")
        with np.errstate(invalid="ignore"):
            # Quiets signaling NaN, which would warn in later computations.
            stored: Floats32 = np.frombuffer(content, FLOAT32) * np.float32(1)
        if len(stored) == stop - first:
            return stored
        values = np.full(stop - first, np.nan, np.float32)
        values[begin - first : end - first] = stored
        return values

    @classmethod
    def _head(cls, path: str, content: bytes, size: int, slots: int) -> FeatureFile:
        if size < FLOAT32.itemsize or size % FLOAT32.itemsize or len(content) < FLOAT32.itemsize:
            raise DataError(
                f"{path}: size must be a start index and values of 4 bytes each, got {size} bytes"
            )
        start = float(np.frombuffer(content, FLOAT32)[0].item())
        count = size // FLOAT32.itemsize - 1
        if not 0 <= start <= slots or start != int(start):
            raise DataError(
                f"{path}: start index must be an integer from 0 to {slots}, the length of the "
                f"calendar, got {start:g}"
            )
        if int(start) + count > slots:
            raise DataError(
                f"{path}: at most {slots - int(start)} values fit from slot {start:g} to the end "
                f"of the calendar, got {count}; the calendar belongs to other data"
            )
        return cls(path, int(start), count)


def encode_feature(values: NDArray[np.float64], start: int, what: str) -> bytes:
    """Encode a feature file; raise `DataError` if float32 cannot represent it."""
    if start > MAX_START:
        raise DataError(
            f"{what}: start index must be at most {MAX_START}, the last exact one in float32, got "
            f"{start}; begin the calendar later"
        )
    with np.errstate(over="ignore"):
        narrow = values.astype(FLOAT32)
    if np.any(np.isinf(narrow) & np.isfinite(values)):
        raise DataError(f"{what}: values must be below 3.4e38, the maximum of float32")
    return np.concatenate([np.array([start], FLOAT32), narrow]).tobytes()


@contextmanager
def _open(path: str) -> Iterator[int]:
    # Much faster than a file object: a panel opens thousands of files.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        yield file
    finally:
        os.close(file)
