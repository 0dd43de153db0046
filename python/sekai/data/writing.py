"""Panels as frames and as Parquet files."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.data.reading.columns import MASKS
from sekai.data.reading.extras import arrow, needed
from sekai.data.reading.stored import MARKET_PREFIX, Stored

__all__ = ["to_frame", "write_parquet"]

GROUP_CELLS = 1 << 20
"""Rows of a file that are written at a time."""
KINDS = ("pandas", "polars", "arrow")


def write_parquet(data: MarketData, path: str | os.PathLike[str], by_asset: bool) -> None:
    """See `MarketData.to_parquet`."""
    parquet = needed("pyarrow.parquet", "MarketData.to_parquet")
    if by_asset:
        _write_folder(parquet, data, Path(path))
        return
    from sekai.rendering.replacement import replacing

    with replacing(path, ".parquet") as draft:
        _write_file(parquet, data, draft, Stored.of(data))


def to_frame(data: MarketData, kind: str, wide: bool) -> Any:
    """See `MarketData.to_frame`."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, was {kind!r}")
    package = "pyarrow" if kind == "arrow" else kind
    needed(package, f"MarketData.to_frame(kind={kind!r})")
    needed("pyarrow", "MarketData.to_frame")
    table = _wide(data) if wide else _long(data)
    if kind == "arrow":
        return table
    if kind == "polars":
        return needed("polars", "MarketData.to_frame").from_arrow(table)
    frame = table.to_pandas()
    if wide:
        frame = frame.set_index("time")
        pandas = needed("pandas", "MarketData.to_frame")
        pairs = [(field, asset) for field in data.fields for asset in data.assets]
        frame.columns = pandas.MultiIndex.from_tuples(pairs, names=["field", "asset"])
    return frame


def _write_folder(parquet: Any, data: MarketData, folder: Path) -> None:
    if folder.exists():
        raise FileExistsError(f"a new folder was wanted, {str(folder)!r} is there: remove it first")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder.parent)!r}: create it")
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        for asset in data.assets:
            place = draft / f"asset={quote(asset, safe='')}"
            place.mkdir(parents=True)
            one = data.select([asset])
            _write_file(parquet, one, place / "rows.parquet", Stored.of(data))
        os.rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_file(parquet: Any, data: MarketData, file: Path, stored: Stored) -> None:
    groups = _groups(data, stored)
    first = next(groups)
    with parquet.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)


def _groups(data: MarketData, stored: Stored) -> Iterator[Any]:
    """Every cell of the panel in the order of time, some times at once."""
    step = max(1, GROUP_CELLS // len(data.assets))
    for start in range(0, max(1, len(data)), step):
        part = data.rows(start, min(start + step, len(data)))
        cells = np.arange(len(part) * len(part.assets))
        columns = _columns(part, cells)
        columns |= {name: getattr(part, name).ravel() for name in MASKS}
        repeated = {
            f"{MARKET_PREFIX}{name}": np.repeat(series, len(part.assets))
            for name, series in part.market.items()
        }
        yield _table(columns | repeated).replace_schema_metadata(stored.metadata())


def _long(data: MarketData) -> Any:
    """The rows of cells in which there is a value."""
    there = np.isfinite(data.values).any(axis=2) | data.quoted
    return _table(_columns(data, np.flatnonzero(there)))


def _wide(data: MarketData) -> Any:
    columns: dict[str, Any] = {"time": _stamps(data, np.arange(len(data)))}
    for field in data.fields:
        for place, asset in enumerate(data.assets):
            columns[f"{field}/{asset}"] = data.field(field)[:, place]
    return _table(columns)


def _columns(data: MarketData, cells: NDArray[np.int64]) -> dict[str, Any]:
    pa = arrow()
    rows, places = np.divmod(cells, len(data.assets))
    names = pa.DictionaryArray.from_arrays(places.astype(np.int32), list(data.assets))
    columns: dict[str, Any] = {"time": _stamps(data, rows), "asset": names.cast(pa.string())}
    for name in data.fields:
        columns[name] = data.field(name).ravel()[cells]
    return columns


def _stamps(data: MarketData, rows: NDArray[np.int64]) -> Any:
    pa = arrow()
    return pa.array(data.times[rows], pa.timestamp("ns", data.timezone or "UTC"))


def _table(columns: dict[str, Any]) -> Any:
    pa = arrow()
    return pa.table({name: pa.array(np.ascontiguousarray(column))
                     if isinstance(column, np.ndarray) else column
                     for name, column in columns.items()})  # fmt: skip
