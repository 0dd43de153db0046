"""Rows of Parquet files: one, a folder of them, or folders that name columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from sekai.data.reading.extras import arrow, compute, needed
from sekai.data.reading.files import PARQUET_SUFFIXES, constants_of, files_of, readable
from sekai.data.reading.numbers import holds
from sekai.data.reading.options import Options
from sekai.data.reading.source import Part, Piece, Selection

__all__ = ["ParquetSource"]


class ParquetSource:
    """Parquet files, of which a few batches of rows are in memory at a time."""

    assets: Sequence[str] = ()

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        """Look at the files' ends, where their columns are written, and read no row yet."""
        self._parquet = needed("pyarrow.parquet", "MarketData.from_parquet")
        self._dataset = needed("pyarrow.dataset", "MarketData.from_parquet")
        self._batch_rows = options.batch_rows
        root, files = files_of(path, PARQUET_SUFFIXES)
        self._files = files
        self.parts = [
            Part(self._schema(file), str(file), constants_of(root, file, PARQUET_SUFFIXES))
            for file in files
        ]

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """The rows in batches."""
        for file, part in zip(self._files, self.parts, strict=True):
            if _is_wanted(part, selection):
                with readable(file):
                    for batch in self._batches(file, part, selection):
                        yield Piece(batch, part)

    def _schema(self, file: Path) -> Any:
        with readable(file):
            return self._parquet.read_schema(file)

    def _batches(self, file: Path, part: Part, selection: Selection) -> Iterator[Any]:
        wanted = [name for name in dict.fromkeys(selection.columns) if name in part.schema.names]
        dataset = self._dataset.dataset(file, format="parquet", schema=part.schema)
        scanner = dataset.scanner(
            columns=wanted, batch_size=self._batch_rows, filter=_filter(part.schema, selection),
            batch_readahead=1, fragment_readahead=1,
            # Off a disk nothing is won by fetching a whole file beforehand.
            fragment_scan_options=self._dataset.ParquetFragmentScanOptions(pre_buffer=False),
        )  # fmt: skip
        yield from scanner.to_batches()


def _is_wanted(part: Part, selection: Selection) -> bool:
    # A folder that names its asset need not be opened to see that it is another one.
    if selection.assets is None or selection.asset in part.schema.names:
        return True
    return part.constants.get(selection.asset) in (None, *selection.assets)


def _filter(schema: Any, selection: Selection) -> Any:
    """What lets Arrow leave out whole groups of rows."""
    pa = arrow()
    pc = compute()
    conditions = []
    named = schema.field(selection.asset).type if selection.asset in schema.names else None
    if selection.assets is not None and named is not None and holds(named) == "text":
        conditions.append(pc.field(selection.asset).isin(list(selection.assets)))
    kind = schema.field(selection.time).type if selection.time in schema.names else None
    if kind is not None and pa.types.is_timestamp(kind):
        column = pc.field(selection.time)
        if selection.start is not None:
            conditions.append(column >= pa.scalar(selection.start, pa.timestamp("ns", kind.tz)))
        if selection.stop is not None:
            conditions.append(column < pa.scalar(selection.stop, pa.timestamp("ns", kind.tz)))
    return reduce(and_, conditions) if conditions else None
