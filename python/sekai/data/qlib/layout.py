"""Where things are in a provider directory of Qlib, and how they are called there."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from sekai.error import DataError

__all__ = [
    "calendar_path", "canonical_frequency", "checked_name", "feature_folder", "feature_path",
    "frequencies_in", "instruments_path",
]  # fmt: skip

FREQUENCY = re.compile(r"(\d*)(month|mon|week|w|day|d|minute|min)")
UNITS = {"mon": "month", "w": "week", "d": "day", "minute": "min"}
RESERVED = {"con", "prn", "aux", "nul"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}
"""Names that Windows keeps for devices; Qlib puts `_qlib_` before them."""
UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]")


def canonical_frequency(given: str) -> str:
    """A frequency as the files are named: `day`, `1min`, `5min`; `1d` and `d` are `day`."""
    found = FREQUENCY.fullmatch(given.lower()) if isinstance(given, str) else None
    if found is None or found[1].strip("0") == "" != found[1]:
        raise DataError(f"a frequency such as 'day', '1min' or '5min' was wanted, found {given!r}")
    unit = UNITS.get(found[2], found[2])
    count = int(found[1] or 1)
    return unit if unit == "day" and count == 1 else f"{count}{unit}"


def checked_name(name: str, what: str) -> str:
    """The name of a symbol, field or market, if it can be that of a file and of nothing else."""
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
            f"the name of a {what} was wanted, of letters, digits and signs such as _ - . that "
            f"stand in names of files, found {name!r}"
        )
    return name


def frequencies_in(root: str) -> list[str]:
    """The frequencies of which a root has a calendar."""
    stems = (file.stem for file in Path(root, "calendars").glob("*.txt"))
    return sorted(stem for stem in stems if not stem.endswith("_future") and stem[0] != ".")


@lru_cache(maxsize=1024)
def calendar_path(root: str, freq: str, future: bool = False) -> str:
    """The file of stamps."""
    return os.path.join(root, "calendars", f"{freq}{'_future' if future else ''}.txt")


@lru_cache(maxsize=1024)
def instruments_path(root: str, market: str) -> str:
    """The file of the instruments of a market."""
    return os.path.join(root, "instruments", f"{checked_name(market, 'market').lower()}.txt")


def feature_folder(root: str, symbol: str) -> str:
    """The folder of a symbol: in lower case, whatever the case of the symbol."""
    name = checked_name(symbol, "symbol").lower()
    return os.path.join(root, "features", f"_qlib_{name}" if name in RESERVED else name)


@lru_cache(maxsize=1 << 16)
def feature_path(root: str, symbol: str, field: str, freq: str) -> str:
    """The file of a field such as `$close` of a symbol, likewise in lower case."""
    name = checked_name(field.removeprefix("$"), "field").lower()
    return os.path.join(feature_folder(root, symbol), f"{name}.{freq}.bin")
