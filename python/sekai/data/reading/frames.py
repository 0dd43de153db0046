"""Row sources of pandas, polars and Arrow frames, long or wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sekai.data.reading.decoding import arrow, compute
from sekai.data.reading.files import (
    RowBatch,
    RowSource,
    Selection,
    SourcePart,
    add_dropped,
    index_columns,
)
from sekai.data.reading.options import (
    ASSET_NAMES,
    TIME_NAMES,
    Options,
    field_name,
    find_columns,
    reject,
)
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from sekai.data.reading.assemble import ProblemLog

PURPOSE = "MarketData.from_frame"
WELL_KNOWN = ("open", "high", "low", "close", "volume", "adj_close", "vwap")


class FrameSource:
    """Frame in memory as Arrow tables, without a copy where possible; a lazy one is collected."""

    def __init__(self, frame: Any) -> None:
        optional_import("pyarrow", "data", PURPOSE)
        tables = _tables(frame)
        self._tables = tables
        self.parts = [
            SourcePart(table.schema, None, {} if asset is None else {"asset": asset})
            for asset, table in tables
        ]
        self.assets: Sequence[str] = [asset for asset, _ in tables if asset is not None]

    def batches(self, selection: Selection) -> Iterator[RowBatch]:
        """Yield one batch per table."""
        for (_, table), part in zip(self._tables, self.parts, strict=True):
            chosen = [name for name in selection.columns if name in table.schema.names]
            yield RowBatch(table.select(chosen), part)


def to_arrow(frame: Any) -> Any:
    """Convert a frame to one Arrow table."""
    tables = _tables(frame)
    if len(tables) != 1 or tables[0][0] is not None:
        reject("column", "frame must have one level of columns, got two")
    return tables[0][1]


def _tables(frame: Any) -> list[tuple[str | None, Any]]:
    """One table, or one per asset if the columns have a level of assets."""
    pa = arrow()
    if isinstance(frame, pa.Table):
        return [(None, frame)]
    if isinstance(frame, pa.RecordBatch):
        return [(None, pa.Table.from_batches([frame]))]
    narwhals = optional_import("narwhals", "data", PURPOSE)
    if narwhals.dependencies.is_pandas_dataframe(frame):
        return from_pandas(frame)
    try:
        known = narwhals.from_native(frame)
    except TypeError as error:
        raise TypeError(
            f"frame must be of pandas, polars or pyarrow, got {type(frame).__name__}"
        ) from error
    if isinstance(known, narwhals.LazyFrame):
        known = known.collect()
    return [(None, known.to_arrow())]


def from_pandas(frame: Any) -> list[tuple[str | None, Any]]:
    """Convert a pandas frame to one table, or one per asset for two levels of columns."""
    if frame.columns.nlevels == 1:
        return [(None, _table(_without_index(frame)))]
    if frame.columns.nlevels != 2:
        reject("column", f"columns must have one or two levels, got {frame.columns.nlevels}")
    level = _asset_level(frame.columns)
    tables: list[tuple[str | None, Any]] = []
    for asset in sorted(frame.columns.get_level_values(level).unique(), key=str):
        part = frame.xs(asset, axis=1, level=level)
        part.columns.name = None
        # A wide frame has a row for all assets: an asset without a value has no row.
        tables.append((str(asset), _table(_without_index(part.dropna(how="all")))))
    return tables


def _asset_level(columns: Any) -> int:
    """Index of the level that names assets: the one that does not name fields."""
    named = [str(name).lower() in ASSET_NAMES for name in columns.names]
    if any(named):
        return named.index(True)
    levels = [columns.get_level_values(level).unique() for level in (0, 1)]
    fields = [sum(field_name(str(name)) in WELL_KNOWN for name in names) for names in levels]
    if fields[0] == fields[1]:
        reject(
            "column",
            f"cannot tell fields from assets in {list(columns[:4])}; name the level of assets "
            "'asset'",
        )
    return 1 if fields[0] > fields[1] else 0


def _without_index(frame: Any) -> Any:
    """Move the index to columns, unless it is a plain counter."""
    pd = optional_import("pandas", "", "a frame of pandas")
    index = frame.index
    if isinstance(index, pd.RangeIndex) or (index.nlevels == 1 and index.dtype.kind in "iu"):
        return frame
    names = []
    for level in range(index.nlevels):
        labels = index.get_level_values(level)
        usual = "time" if isinstance(labels, pd.DatetimeIndex) else "asset"
        names.append(usual if index.names[level] is None else index.names[level])
    known = [name for name in names if str(name).lower() in (*TIME_NAMES, *ASSET_NAMES)]
    taken = [name for name in known if name in frame.columns]
    # A time that is both index and column, as after set_index(drop=False), is one time.
    return frame.drop(columns=taken).rename_axis(index=names).reset_index()


def _table(frame: Any) -> Any:
    pa = arrow()
    duplicates = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
    if duplicates:
        reject("column", f"duplicate columns: {', '.join(duplicates)}")
    return pa.table({str(name): _column(frame[name]) for name in frame.columns})


def _column(series: Any) -> Any:
    """Arrow column; mixed types become text, so that nothing is guessed."""
    pd = optional_import("pandas", "", "a frame of pandas")
    pa = arrow()
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    kinds = {type(value) for value in series[series.notna()]}
    if len(kinds) == 1 and issubclass(next(iter(kinds)), str | int | float):
        return pa.array(series, from_pandas=True)
    values = [None if pd.isna(value) else str(value) for value in series]
    return pa.array(values, pa.string())


class WideSource:
    """Source of a wide table, read as a long one: its columns but the time are assets."""

    def __init__(self, source: RowSource, options: Options, field: str, log: ProblemLog) -> None:
        names = list(dict.fromkeys(name for part in source.parts for name in part.schema.names))
        self._source = source
        self._field = field
        self._columns = find_columns(names, options, index=index_columns(source.parts))
        add_dropped(self._columns, log, source.parts[0].file)
        self.assets: Sequence[str] = list(self._columns.wide)
        self.parts = [
            self._part(part, asset)
            for part in source.parts
            for asset, column in self._columns.wide.items()
            if column in part.schema.names
        ]

    def batches(self, selection: Selection) -> Iterator[RowBatch]:
        """Yield the rows in which an asset has a value, asset by asset."""
        time, wide = self._columns.time, self._columns.wide
        chosen = {
            asset: column
            for asset, column in wide.items()
            if selection.assets is None or asset in selection.assets
        }
        columns = [time, *chosen.values()]
        for batch in self._source.batches(
            replace(selection, columns=columns, time=time, assets=None)
        ):
            for asset, column in chosen.items():
                if column in batch.table.schema.names:
                    yield RowBatch(self._rows(batch.table, column), self._part(batch.part, asset))

    def _rows(self, table: Any, column: str) -> Any:
        pa = arrow()
        pc = compute()
        values = table.column(column)
        valid = pc.is_valid(values)
        if pa.types.is_floating(values.type):
            valid = pc.and_(valid, pc.invert(pc.is_nan(values).fill_null(True)))
        rows = pa.table({"time": table.column(self._columns.time), self._field: values})
        return rows.filter(valid)

    def _part(self, part: SourcePart, asset: str) -> SourcePart:
        pa = arrow()
        schema = part.schema
        time, column = self._columns.time, self._columns.wide[asset]
        kinds = [("time", schema.field(time).type), (self._field, schema.field(column).type)]
        return SourcePart(pa.schema(kinds), part.file, {"asset": asset})
