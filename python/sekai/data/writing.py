"""Write panels as frames and as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.data.reading.decoding import arrow
from sekai.data.reading.files import MARKET_PREFIX, PanelMetadata
from sekai.data.reading.options import MASKS
from sekai.storage.files import new_folder, replace_file
from sekai.storage.optional import optional_import

__all__ = ["frame_of", "to_frame", "write_parquet"]

GROUP_CELLS = 1 << 20
"""Cells written at once, which bounds memory."""
KINDS = ("pandas", "polars", "arrow")


def write_parquet(data: MarketData, path: str | os.PathLike[str], by_asset: bool) -> None:
    """Write a Parquet file or folder, see `MarketData.to_parquet`."""
    parquet = optional_import("pyarrow.parquet", "data", "MarketData.to_parquet")
    if by_asset:
        _write_folder(parquet, data, Path(path))
        return

    with replace_file(path, ".parquet") as draft:
        _write_file(parquet, data, draft, PanelMetadata.of(data))


def to_frame(data: MarketData, kind: str, wide: bool) -> Any:
    """Convert to a frame, see `MarketData.to_frame`."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    package = "pyarrow" if kind == "arrow" else kind
    optional_import(package, "data", f"MarketData.to_frame(kind={kind!r})")
    optional_import("pyarrow", "data", "MarketData.to_frame")
    table = _wide(data) if wide else _long(data)
    if kind == "arrow":
        return table
    if kind == "polars":
        return optional_import("polars", "data", "MarketData.to_frame").from_arrow(table)
    frame = table.to_pandas()
    if wide:
        frame = frame.set_index("time")
        pandas = optional_import("pandas", "data", "MarketData.to_frame")
        pairs = [(field, asset) for field in data.fields for asset in data.assets]
        frame.columns = pandas.MultiIndex.from_tuples(pairs, names=["field", "asset"])
    return frame


BACKENDS = ("pandas", "polars", "pyarrow")


def frame_of(columns: Mapping[str, Any], backend: str = "pandas") -> Any:
    """Frame of columns of equal length.

    Args:
        columns: arrays or lists by name.
        backend: `pandas`, `polars` or `pyarrow`.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    package = optional_import(backend, "data", f"to_frame(backend={backend!r})")
    if backend == "pyarrow":
        return package.table(dict(columns))
    return package.DataFrame(dict(columns))


def _write_folder(parquet: Any, data: MarketData, folder: Path) -> None:
    with new_folder(folder) as draft:
        for asset in data.assets:
            part = draft / f"asset={quote(asset, safe='')}"
            part.mkdir(parents=True)
            _write_file(
                parquet, data.select([asset]), part / "rows.parquet", PanelMetadata.of(data)
            )


def _write_file(parquet: Any, data: MarketData, file: Path, metadata: PanelMetadata) -> None:
    groups = _groups(data, metadata)
    first = next(groups)
    with parquet.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)


def _groups(data: MarketData, metadata: PanelMetadata) -> Iterator[Any]:
    """Yield all cells in the order of time, in blocks."""
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
        yield _table(columns | repeated).replace_schema_metadata(metadata.metadata())


def _long(data: MarketData) -> Any:
    """Rows of the cells with a value."""
    valued = np.isfinite(data.values).any(axis=2) | data.quoted
    return _table(_columns(data, np.flatnonzero(valued)))


def _wide(data: MarketData) -> Any:
    columns: dict[str, Any] = {"time": _timestamps(data, np.arange(len(data)))}
    for field in data.fields:
        for index, asset in enumerate(data.assets):
            columns[f"{field}/{asset}"] = data.field(field)[:, index]
    return _table(columns)


def _columns(data: MarketData, cells: NDArray[np.int64]) -> dict[str, Any]:
    pa = arrow()
    rows, assets = np.divmod(cells, len(data.assets))
    names = pa.DictionaryArray.from_arrays(assets.astype(np.int32), list(data.assets))
    columns: dict[str, Any] = {"time": _timestamps(data, rows), "asset": names.cast(pa.string())}
    for name in data.fields:
        columns[name] = data.field(name).ravel()[cells]
    return columns


def _timestamps(data: MarketData, rows: NDArray[np.int64]) -> Any:
    pa = arrow()
    return pa.array(data.times[rows], pa.timestamp("ns", data.timezone or "UTC"))


def _table(columns: dict[str, Any]) -> Any:
    pa = arrow()
    return pa.table(
        {
            name: pa.array(np.ascontiguousarray(column))
            if isinstance(column, np.ndarray)
            else column
            for name, column in columns.items()
        }
    )
