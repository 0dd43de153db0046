"""Rows of frames: pandas, polars and Arrow alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sekai.data.reading.columns import refuse
from sekai.data.reading.extras import arrow, needed
from sekai.data.reading.pandas_frames import from_pandas
from sekai.data.reading.source import Part, Piece, Selection

__all__ = ["FrameSource", "to_arrow"]

PURPOSE = "MarketData.from_frame"


class FrameSource:
    """A frame that is in memory already; a lazy one is collected."""

    def __init__(self, frame: Any) -> None:
        """Look at the frame as Arrow tables, without a copy where that is possible."""
        needed("pyarrow", PURPOSE)
        tables = _tables(frame)
        self._tables = tables
        self.parts = [
            Part(table.schema, None, {} if asset is None else {"asset": asset})
            for asset, table in tables
        ]
        self.assets: Sequence[str] = [asset for asset, _ in tables if asset is not None]

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """The rows, a table a piece."""
        for (_, table), part in zip(self._tables, self.parts, strict=True):
            chosen = [name for name in selection.columns if name in table.schema.names]
            yield Piece(table.select(chosen), part)


def to_arrow(frame: Any) -> Any:
    """A frame as one Arrow table."""
    tables = _tables(frame)
    if len(tables) != 1 or tables[0][0] is not None:
        refuse("column", "a frame with plain columns was wanted, found columns of two levels")
    return tables[0][1]


def _tables(frame: Any) -> list[tuple[str | None, Any]]:
    """One table, or one for each asset if the columns name assets and fields."""
    pa = arrow()
    if isinstance(frame, pa.Table):
        return [(None, frame)]
    if isinstance(frame, pa.RecordBatch):
        return [(None, pa.Table.from_batches([frame]))]
    narwhals = needed("narwhals", PURPOSE)
    if narwhals.dependencies.is_pandas_dataframe(frame):
        return from_pandas(frame)
    try:
        known = narwhals.from_native(frame)
    except TypeError as error:
        raise TypeError(
            f"a frame of pandas, polars or pyarrow was wanted, found {type(frame).__name__}"
        ) from error
    if isinstance(known, narwhals.LazyFrame):
        known = known.collect()
    return [(None, known.to_arrow())]
