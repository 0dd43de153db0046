"""Write a panel as a Qlib provider directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import priced
from sekai.data.qlib.files import (
    calendar_path,
    calendar_text,
    canonical_frequency,
    checked_name,
    encode_feature,
    feature_path,
    frequencies_in,
    instruments_path,
)
from sekai.error import DataError
from sekai.storage.files import draft_folder, new_folder, rename_file

if TYPE_CHECKING:
    from sekai.data.market_data import MarketData

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
    """Write a panel as a provider directory that Qlib and `QlibProvider` read.

    Folders of symbols are in lower case; the instruments file keeps the spelling. Listings become
    ranges, several if there are gaps. Values are float32, NaN where missing. The masks `quoted`
    and `tradable` follow from the prices; where they do not, the fields `$quoted` and `$tradable`
    store them as 1 and 0. The format has no place for sectors, market-wide series, warm-up rows,
    repairs, the time zone of the timestamps, and values of rows in which an asset is not listed.

    Args:
        data: panel.
        root: new or empty folder.
        freq: `day`, `1min` and so on; by default that of the panel.
        market: name of the instruments file.
        known_after: delay from the timestamp in the files until a row is known, as in `from_qlib`.
        overwrite: replace the data of this market; the folder must be a provider directory of this
            frequency only. Files are replaced atomically, and the calendar is missing meanwhile,
            so that an interrupted write is detected.

    Raises:
        DataError: if the format cannot represent the panel; nothing is written then.
    """
    path = Path(os.path.abspath(root))
    name = canonical_frequency(freq or _frequency(data))
    _check_root(path, name, overwrite)
    with draft_folder(path) if path.exists() else new_folder(path) as draft:
        _write(data, str(draft), name, market, known_after)
        if path.exists():
            _replace(draft, path, name)


def _frequency(data: MarketData) -> str:
    name = data.frequency.name
    if not name.endswith(("d", "min", "h")):
        raise DataError(f"freq must be passed: the frequency {name} is not minutes or days")
    return f"{60 * int(name[:-1])}min" if name.endswith("h") else name


def _check_root(path: Path, freq: str, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"missing folder {str(path.parent)!r}; create it first")
    if not path.exists():
        return
    if not path.is_dir():
        raise FileExistsError(f"{str(path)!r} is a file; expected a folder")
    if not any(path.iterdir()):
        path.rmdir()
        return
    if not overwrite:
        raise FileExistsError(
            f"{str(path)!r} exists; choose another folder, or pass overwrite=True"
        )
    known = frequencies_in(str(path))
    if not all((path / part).is_dir() for part in PARTS) or known not in ([freq], []):
        raise DataError(
            f"{str(path)!r} cannot be overwritten: it has {', '.join(known) or 'no calendar'}, "
            f"expected a provider directory of {freq} only; choose another folder"
        )


def _write(data: MarketData, root: str, freq: str, market: str, known_after: timedelta) -> None:
    times = _timestamps(data, freq, known_after)
    lines = [line for asset in data.assets for line in _ranges(data, asset, times)]
    files = _files(data, root, freq)
    for part in PARTS:
        os.makedirs(os.path.join(root, part))
    _write_lines(calendar_path(root, freq), times)
    _write_lines(instruments_path(root, market), lines)
    for path, content in files:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(content)


def _timestamps(data: MarketData, freq: str, known_after: timedelta) -> list[str]:
    """Local start of each row as text."""
    if not len(data):
        raise DataError("panel must have at least one row, got none")
    local: NDArray[np.datetime64] = data.calendar.local - np.timedelta64(known_after)
    text = calendar_text(local, freq)
    for row, time in enumerate(local):
        if np.datetime64(text[row], "ns") != time:
            unit = "days" if freq.endswith("day") else "whole seconds"
            raise DataError(
                f"timestamps must be {unit} in local time, got {time}; pass known_after, the delay "
                f"from the timestamp until a row is known"
            )
    late = next((row for row in range(1, len(text)) if text[row] <= text[row - 1]), None)
    if late is not None:
        raise DataError(
            f"local timestamps must be ascending, got {text[late - 1]} and then {text[late]} at a "
            f"clock change; use another timezone in the panel"
        )
    return text


def _ranges(data: MarketData, asset: str, times: list[str]) -> Iterator[str]:
    """Yield a line for each run of rows in which an asset is listed."""
    name = checked_name(asset, "symbol")
    listed = np.concatenate([[False], data.listed[:, data.asset(asset)], [False]])
    edges = np.flatnonzero(listed[1:] != listed[:-1]).reshape(-1, 2)
    if not len(edges):
        raise DataError(f"asset {asset} is never listed; leave it out")
    for first, stop in edges:
        yield f"{name}\t{times[first]}\t{times[stop - 1]}"


def _files(data: MarketData, root: str, freq: str) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and contents of feature files."""
    _reject_same_path("assets", data.assets)
    _reject_same_path("fields", (*data.fields, *_masks(data)))
    columns = [(name, data.field(name)) for name in data.fields]
    columns += [(name, mask.astype(np.float64)) for name, mask in _masks(data).items()]
    for index, asset in enumerate(data.assets):
        covered = data.listed[:, index] | np.isfinite(data.values[:, index]).any(axis=1)
        rows = np.flatnonzero(covered)
        first, stop = int(rows[0]), int(rows[-1]) + 1
        for name, column in columns:
            path = feature_path(root, asset, name, freq)
            yield path, encode_feature(column[first:stop, index], first, f"{asset} {name}")


def _masks(data: MarketData) -> dict[str, NDArray[np.bool_]]:
    """Masks that do not follow from the prices."""
    masks = {}
    if not np.array_equal(priced(data.fields, data.values) & data.listed, data.quoted):
        masks["quoted"] = data.quoted
    if not np.array_equal(data.tradable, data.quoted):
        masks["tradable"] = data.tradable
    return masks


def _reject_same_path(what: str, names: tuple[str, ...]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(checked_name(name, what[:-1]).lower(), name)
        if other != name or names.count(name) > 1:
            raise DataError(
                f"{what} must differ in more than case, because file names are in lower case, got "
                f"{other!r} and {name!r}"
            )


def _write_lines(path: str, lines: list[str]) -> None:
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _replace(draft: Path, folder: Path, freq: str) -> None:
    """Move the files of a draft over older ones; the calendar is removed first and moved last."""
    calendar = Path("calendars", f"{freq}.txt")
    (folder / calendar).unlink(missing_ok=True)
    written = {file.relative_to(draft) for file in draft.rglob("*") if file.is_file()} - {calendar}
    for old in folder.glob(f"features/*/*.{freq}.bin"):
        if old.relative_to(folder) not in written:
            old.unlink()
    for file in sorted(written):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        rename_file(draft / file, folder / file)
    rename_file(draft / calendar, folder / calendar)
