"""Writes a panel as a provider directory of Qlib."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.data.panel_checks import priced
from sekai.data.qlib.calendar_file import calendar_text
from sekai.data.qlib.feature_file import encoded
from sekai.data.qlib.layout import (
    calendar_path,
    canonical_frequency,
    checked_name,
    feature_path,
    frequencies_in,
    instruments_path,
)
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData

__all__ = ["write_qlib"]

PARTS = ("calendars", "instruments", "features")


def write_qlib(
    data: MarketData,
    root: str | os.PathLike[str],
    freq: str | None = None,
    *,
    market: str = "all",
    known_after: timedelta = timedelta(0),
    overwrite: bool = False,
) -> None:
    """Write a panel as a provider directory, which Qlib and `QlibProvider` read.

    A symbol's folder has its name in lower case, its line in the file of instruments the name as
    it is. Listings become ranges, several if there are gaps. Values have 32 bits there, and NaN
    where there is none. Which assets are quoted and tradable follows from prices that are there;
    where it does not, the fields `$quoted` and `$tradable` say it as 1 and 0. What the format has
    no place for is left out: sectors, series of the whole market, warm-up rows, repairs, the time
    zone, whose clocks the stamps show, and values of rows in which an asset is not listed.

    Args:
        data: the panel.
        root: the folder; it must be new or empty.
        freq: `day`, `1min` and so on; from the panel if not given.
        market: the name of the file of instruments.
        known_after: how long after its stamp in the files a row is known, as for `from_qlib`.
        overwrite: replace what the folder has of this market; it must be a provider directory of
            this frequency alone. Each file is replaced in one move, and the calendar is missing
            in between, so that an interrupted writing is seen and not read.

    Raises:
        DataError: when the format cannot say it; nothing is written then.
    """
    place = Path(os.path.abspath(root))
    name = canonical_frequency(freq or _frequency(data))
    _check_root(place, name, overwrite)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        _write(data, str(draft), name, market, known_after)
        _replace(draft, place, name) if place.exists() else os.rename(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _frequency(data: MarketData) -> str:
    name = data.frequency.name
    if not name.endswith(("d", "min", "h")):
        raise DataError(
            f"a frequency of minutes or days was wanted, found {name}: name one as freq"
        )
    return f"{60 * int(name[:-1])}min" if name.endswith("h") else name


def _check_root(place: Path, freq: str, overwrite: bool) -> None:
    if not place.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(place.parent)!r}: create it")
    if not place.exists():
        return
    if not place.is_dir():
        raise FileExistsError(f"a folder was wanted, {str(place)!r} is a file")
    if not any(place.iterdir()):
        place.rmdir()
        return
    if not overwrite:
        raise FileExistsError(
            f"a new folder was wanted, {str(place)!r} is there: name another, or overwrite=True"
        )
    found = frequencies_in(str(place))
    if not all((place / part).is_dir() for part in PARTS) or found not in ([freq], []):
        raise DataError(
            f"a provider directory of {freq} alone was wanted to be overwritten, {str(place)!r} "
            f"has {', '.join(found) or 'no calendar'}: name another folder"
        )


def _write(data: MarketData, root: str, freq: str, market: str, known_after: timedelta) -> None:
    stamps = _stamps(data, freq, known_after)
    lines = [line for asset in data.assets for line in _ranges(data, asset, stamps)]
    files = _files(data, root, freq)
    for part in PARTS:
        os.makedirs(os.path.join(root, part))
    _write_lines(calendar_path(root, freq), stamps)
    _write_lines(instruments_path(root, market), lines)
    for path, content in files:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(content)


def _stamps(data: MarketData, freq: str, known_after: timedelta) -> list[str]:
    """What the clocks of the market show at the beginning of each row."""
    if not len(data):
        raise DataError("a panel of at least one row was wanted, found none")
    shown: NDArray[np.datetime64] = data.calendar.local - np.timedelta64(known_after)
    text = calendar_text(shown, freq)
    for row, moment in enumerate(shown):
        if np.datetime64(text[row], "ns") != moment:
            unit = "days" if freq.endswith("day") else "whole seconds"
            raise DataError(
                f"stamps of {unit} were wanted, found {moment} where the market is: give "
                f"known_after, how long after its stamp a row is known"
            )
    late = next((row for row in range(1, len(text)) if text[row] <= text[row - 1]), None)
    if late is not None:
        raise DataError(
            f"stamps in ascending order were wanted, but clocks show {text[late - 1]} and then "
            f"{text[late]}, as they were set back: name another timezone in the panel"
        )
    return text


def _ranges(data: MarketData, asset: str, stamps: list[str]) -> Iterator[str]:
    """The lines of an asset: one for each run of rows in which it is listed."""
    name = checked_name(asset, "symbol")
    listed = np.concatenate([[False], data.listed[:, data.asset(asset)], [False]])
    edges = np.flatnonzero(listed[1:] != listed[:-1]).reshape(-1, 2)
    if not len(edges):
        raise DataError(f"assets that are listed at some time were wanted, {asset} never is")
    for first, stop in edges:
        yield f"{name}\t{stamps[first]}\t{stamps[stop - 1]}"


def _files(data: MarketData, root: str, freq: str) -> Iterator[tuple[str, bytes]]:
    """The files of fields and their contents."""
    _refuse_alike("assets", data.assets)
    _refuse_alike("fields", (*data.fields, *_masks(data)))
    columns = [(name, data.field(name)) for name in data.fields]
    columns += [(name, mask.astype(np.float64)) for name, mask in _masks(data).items()]
    for place, asset in enumerate(data.assets):
        there = data.listed[:, place] | np.isfinite(data.values[:, place]).any(axis=1)
        rows = np.flatnonzero(there)
        first, stop = int(rows[0]), int(rows[-1]) + 1
        for name, column in columns:
            path = feature_path(root, asset, name, freq)
            yield path, encoded(column[first:stop, place], first, f"{asset} {name}")


def _masks(data: MarketData) -> dict[str, NDArray[np.bool_]]:
    """The masks that do not follow from the prices."""
    masks = {}
    if not np.array_equal(priced(data.fields, data.values) & data.listed, data.quoted):
        masks["quoted"] = data.quoted
    if not np.array_equal(data.tradable, data.quoted):
        masks["tradable"] = data.tradable
    return masks


def _refuse_alike(what: str, names: tuple[str, ...]) -> None:
    met: dict[str, str] = {}
    for name in names:
        other = met.setdefault(checked_name(name, what[:-1]).lower(), name)
        if other != name or names.count(name) > 1:
            raise DataError(
                f"{what} that differ in more than case were wanted, as files are named in lower "
                f"case, found {other!r} and {name!r}"
            )


def _write_lines(path: str, lines: list[str]) -> None:
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _replace(draft: Path, place: Path, freq: str) -> None:
    """Move the files of a draft to where older ones are; the calendar goes first and comes last."""
    calendar = Path("calendars", f"{freq}.txt")
    (place / calendar).unlink(missing_ok=True)
    made = {file.relative_to(draft) for file in draft.rglob("*") if file.is_file()} - {calendar}
    for old in place.glob(f"features/*/*.{freq}.bin"):
        if old.relative_to(place) not in made:
            old.unlink()
    for file in sorted(made):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft / file, place / file)
    os.replace(draft / calendar, place / calendar)
