"""Tables of one field in which each column is an asset, seen as rows of one asset each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sekai.data.reading.columns import find_columns
from sekai.data.reading.extras import arrow, compute
from sekai.data.reading.options import Options
from sekai.data.reading.source import Part, Piece, Selection, Source

__all__ = ["WideSource"]


class WideSource:
    """Another source, turned from wide to long."""

    def __init__(self, source: Source, options: Options, field: str) -> None:
        """Take a source whose columns but one are assets."""
        names = list(dict.fromkeys(name for part in source.parts for name in part.schema.names))
        self._source = source
        self._field = field
        self._columns = find_columns(names, options)
        self.assets: Sequence[str] = list(self._columns.wide)
        self.parts = [
            self._part(part, asset)
            for part in source.parts
            for asset, column in self._columns.wide.items()
            if column in part.schema.names
        ]

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """The rows in which an asset has a value, asset by asset."""
        time, wide = self._columns.time, self._columns.wide
        chosen = {
            asset: column
            for asset, column in wide.items()
            if selection.assets is None or asset in selection.assets
        }
        whole = replace(selection, columns=[time, *chosen.values()], time=time, assets=None)
        for piece in self._source.pieces(whole):
            for asset, column in chosen.items():
                if column in piece.table.schema.names:
                    yield Piece(self._one(piece.table, column), self._part(piece.part, asset))

    def _one(self, table: Any, column: str) -> Any:
        pa = arrow()
        pc = compute()
        values = table.column(column)
        there = pc.is_valid(values)
        if pa.types.is_floating(values.type):
            there = pc.and_(there, pc.invert(pc.is_nan(values).fill_null(True)))
        chosen = pa.table({"time": table.column(self._columns.time), self._field: values})
        return chosen.filter(there)

    def _part(self, part: Part, asset: str) -> Part:
        pa = arrow()
        schema = part.schema
        time, column = self._columns.time, self._columns.wide[asset]
        kinds = [("time", schema.field(time).type), (self._field, schema.field(column).type)]
        return Part(pa.schema(kinds), part.file, {"asset": asset})
