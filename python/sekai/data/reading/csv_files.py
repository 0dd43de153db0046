"""Rows of CSV files: one or a folder of them, packed or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sekai.data.reading.columns import ASSET_NAMES, MASKS, TIME_NAMES, refuse
from sekai.data.reading.extras import arrow, needed
from sekai.data.reading.files import CSV_SUFFIXES, constants_of, files_of, readable
from sekai.data.reading.options import Options
from sekai.data.reading.source import Part, Piece, Selection

__all__ = ["CsvSource", "read_csv"]


class CsvSource:
    """CSV files, which are read once and kept."""

    assets: Sequence[str] = ()

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        """Read the files; their text becomes numbers where a column has nothing else."""
        root, files = files_of(path, CSV_SUFFIXES)
        keys = {options.time, options.asset, *options.rename}
        self._tables = [read_csv(file, keys - {None}) for file in files]
        self.parts = [
            Part(table.schema, str(file), constants_of(root, file, CSV_SUFFIXES))
            for file, table in zip(files, self._tables, strict=True)
        ]

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """The rows, a file a piece."""
        for table, part in zip(self._tables, self.parts, strict=True):
            chosen = [name for name in selection.columns if name in table.schema.names]
            yield Piece(table.select(chosen), part)


def read_csv(file: Path, text: Any = ()) -> Any:
    """A CSV file as an Arrow table.

    Columns that are numbers throughout are read as such. Times and names stay text: an offset
    from UTC or the zeros before a number would be lost otherwise.
    """
    csv = needed("pyarrow.csv", "MarketData.from_csv")
    pa = arrow()
    with readable(file):
        names = _header(file)
        as_text = {name: pa.string() for name in names}
        keys = (*TIME_NAMES, *ASSET_NAMES, *MASKS)
        as_numbers: Mapping[str, Any] = {
            name: pa.string() if name in text or name.lower() in keys else pa.float64()
            for name in names
        }
        try:
            return _parsed(csv, file, as_numbers)
        except pa.ArrowInvalid:
            return _parsed(csv, file, as_text)


def _parsed(csv: Any, file: Path, types: Mapping[str, Any]) -> Any:
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return csv.read_csv(file, convert_options=convert)


def _header(file: Path) -> list[str]:
    import csv
    import gzip

    opened = gzip.open if file.name.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:
        names = next(csv.reader(lines), [])
    if not names or len(set(names)) != len(names):
        refuse("file", f"a first line of columns that differ was wanted, found {names}", str(file))
    return names
