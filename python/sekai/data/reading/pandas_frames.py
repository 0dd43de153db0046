"""Frames of pandas, whose rows and columns can have labels of several levels."""

from __future__ import annotations

from typing import Any

from sekai.data.reading.columns import ASSET_NAMES, TIME_NAMES, field_name, refuse
from sekai.data.reading.extras import arrow, needed

__all__ = ["from_pandas"]

WELL_KNOWN = ("open", "high", "low", "close", "volume", "adj_close", "vwap")


def from_pandas(frame: Any) -> list[tuple[str | None, Any]]:
    """One Arrow table, or one for each asset if the columns name assets and fields."""
    if frame.columns.nlevels == 1:
        return [(None, _table(_without_index(frame)))]
    if frame.columns.nlevels != 2:
        refuse("column", f"columns of one or two levels were wanted, found {frame.columns.nlevels}")
    level = _asset_level(frame.columns)
    tables: list[tuple[str | None, Any]] = []
    for asset in sorted(frame.columns.get_level_values(level).unique(), key=str):
        part = frame.xs(asset, axis=1, level=level)
        part.columns.name = None
        # A row of such a frame is one for all assets: where one has nothing, it has no row.
        tables.append((str(asset), _table(_without_index(part.dropna(how="all")))))
    return tables


def _asset_level(columns: Any) -> int:
    """Which of two levels names the assets: the one that does not name fields."""
    named = [str(name).lower() in ASSET_NAMES for name in columns.names]
    if any(named):
        return named.index(True)
    levels = [columns.get_level_values(level).unique() for level in (0, 1)]
    fields = [sum(field_name(str(name)) in WELL_KNOWN for name in names) for names in levels]
    if fields[0] == fields[1]:
        refuse("column", f"one level of fields was wanted, found {list(columns[:4])}: "
               "name the level of the assets 'asset'")  # fmt: skip
    return 1 if fields[0] > fields[1] else 0


def _without_index(frame: Any) -> Any:
    """The labels of the rows as columns, unless they only count."""
    pd = needed("pandas", "a frame of pandas")
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
    # A time that is both label and column, as after set_index(drop=False), is one time.
    return frame.drop(columns=taken).rename_axis(index=names).reset_index()


def _table(frame: Any) -> Any:
    pa = arrow()
    twice = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
    if twice:
        refuse("column", f"columns that have one name: {', '.join(twice)}")
    return pa.table({str(name): _column(frame[name]) for name in frame.columns})


def _column(series: Any) -> Any:
    """A column; one of several types becomes text, so that nothing in it is guessed at."""
    pd = needed("pandas", "a frame of pandas")
    pa = arrow()
    if series.dtype != object:
        return pa.array(series, from_pandas=True)
    kinds = {type(value) for value in series[series.notna()]}
    if len(kinds) == 1 and issubclass(next(iter(kinds)), str | int | float):
        return pa.array(series, from_pandas=True)
    values = [None if pd.isna(value) else str(value) for value in series]
    return pa.array(values, pa.string())
