"""Files of instruments: symbol, first stamp and last stamp a line, several lines a symbol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.data.qlib.calendar_file import parse_stamp, read_text
from sekai.data.qlib.layout import checked_name
from sekai.error import DataError

__all__ = ["Instruments", "Range", "Ranges", "listed_slots", "read_instruments"]

Range = tuple[np.datetime64, np.datetime64]
"""The first and the last stamp at which a symbol is listed, both included."""
Ranges = tuple[Range, ...]
Instruments = Mapping[str, Ranges]


def read_instruments(path: str) -> dict[str, Ranges]:
    """The ranges of each symbol, in the order of the file."""
    found: dict[str, list[Range]] = {}
    folders: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "a file of instruments").splitlines(), 1):
        if line.strip():
            symbol, listed = _parsed(f"{path}:{number}", line)
            other = folders.setdefault(symbol.lower(), symbol)
            if other != symbol:
                raise DataError(
                    f"{path}:{number}: {symbol!r} and {other!r} share a folder, as case does not "
                    f"count there: write them alike"
                )
            found.setdefault(symbol, []).append(listed)
    return {symbol: tuple(ranges) for symbol, ranges in found.items()}


def listed_slots(
    calendar: NDArray[np.datetime64], ranges: Sequence[Range], first: int, stop: int
) -> NDArray[np.bool_]:
    """Which slots of a part of a calendar are within some range."""
    listed = np.zeros(stop - first, np.bool_)
    for begin, end in ranges:
        left = int(np.searchsorted(calendar, begin, "left")) - first
        right = int(np.searchsorted(calendar, end, "right")) - first
        listed[max(0, left) : max(0, right)] = True
    return listed


def _parsed(where: str, line: str) -> tuple[str, Range]:
    parts = [part.strip() for part in line.split("\t")]
    stamps = [parse_stamp(part) for part in parts[1:3]]
    first, last = stamps if len(stamps) == 2 else (None, None)
    if first is None or last is None:
        raise DataError(
            f"{where}: a symbol, a first and a last stamp with tabs between them were wanted, "
            f"found {line[:80]!r}"
        )
    if first > last:
        raise DataError(f"{where}: a first stamp before the last was wanted, found {line[:80]!r}")
    try:
        return checked_name(parts[0], "symbol"), (first, last)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
