"""Files of stamps: one a line, in the order of time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sekai.error import DataError

__all__ = ["calendar_text", "parse_stamp", "read_calendar", "read_text"]

Times = NDArray[np.datetime64]

STAMP = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?"
WHOLE = re.compile(rf"(?:{STAMP}\n)+")
ONE = re.compile(STAMP)
FIRST, LAST = (np.datetime64(year, "s") for year in ("1678", "2262"))
"""Between these a stamp has room in nanoseconds."""


def read_text(path: str, what: str) -> str:
    """The text of a small file, with an error that says what it was wanted for."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{what} was wanted, there is no file {path!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{what} was wanted, {path!r} cannot be read: {error}") from error


def read_calendar(path: str) -> Times:
    """The stamps of a calendar in nanoseconds; they cannot be written to."""
    text = read_text(path, "a calendar")
    lines = [line.strip() for line in text.splitlines()]
    filled = [line for line in lines if line]
    if not filled:
        raise DataError(f"a calendar of at least one stamp was wanted, {path!r} is empty")
    if WHOLE.fullmatch("\n".join([*filled, ""])) is None:
        _refuse_line(path, lines)
    try:
        seconds = np.array(filled, dtype="datetime64[s]")
    except ValueError:
        _refuse_line(path, lines)
    times: Times = seconds.astype("datetime64[ns]")
    wrong = np.flatnonzero(np.diff(seconds) <= np.timedelta64(0))
    if len(wrong) or seconds[0] < FIRST or seconds[-1] >= LAST:
        place = int(wrong[0]) + 1 if len(wrong) else 0
        raise DataError(
            f"{path}:{_line_of(lines, place)}: stamps of the years 1678 to 2261 in ascending order "
            f"were wanted, found {filled[place]!r}"
        )
    times.flags.writeable = False
    return times


def parse_stamp(text: str) -> np.datetime64 | None:
    """A stamp of a line, or None if it is none."""
    if ONE.fullmatch(text) is None:
        return None
    try:
        seconds = np.datetime64(text, "s")
    except ValueError:
        return None
    return seconds.astype("datetime64[ns]") if FIRST <= seconds < LAST else None


def calendar_text(times: Times, freq: str) -> list[str]:
    """Stamps as the files have them: days without a time of day, others to the second."""
    if freq.endswith(("day", "week", "month")):
        return [str(day) for day in times.astype("datetime64[D]")]
    return [str(second).replace("T", " ") for second in times.astype("datetime64[s]")]


def _line_of(lines: list[str], place: int) -> int:
    """The number, from 1, of the line that holds the stamp at a place."""
    return [number for number, line in enumerate(lines, 1) if line][place]


def _refuse_line(path: str, lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if line and parse_stamp(line) is None:
            raise DataError(
                f"{path}:{number}: a stamp such as 2020-01-31 or 2020-01-31 09:30:00 was wanted, "
                f"found {line[:40]!r}"
            )
    raise AssertionError("a calendar was refused of which every line is in order")
