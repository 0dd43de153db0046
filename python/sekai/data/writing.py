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
from sekai.error import MissingExtraError
from sekai.storage.files import new_folder, replace_file
from sekai.storage.optional import optional_import

GROUP_CELLS = 1 << 20
"""Cells written at once, which bounds memory."""
BACKENDS = ("pandas", "polars", "pyarrow")


def write_parquet(data: MarketData, path: str | os.PathLike[str], by_asset: bool) -> None:
    """Write a Parquet file or folder, see `MarketData.to_parquet`."""
    parquet = optional_import("pyarrow.parquet", "data", "MarketData.to_parquet")
    if by_asset:
        _write_folder(parquet, data, Path(path))
        return

    with replace_file(path, ".parquet") as draft:
        _write_file(parquet, data, draft, PanelMetadata.of(data))


def to_frame(data: MarketData, backend: str, wide: bool) -> Any:
    """Convert to a frame, see `MarketData.to_frame`."""
    purpose = f"MarketData.to_frame(backend={backend!r})"
    frame = as_frame(_wide(data) if wide else _long(data), backend, purpose)
    if wide and backend == "pandas":
        frame = frame.set_index("time")
        pandas = optional_import("pandas", "", purpose)
        pairs = [(field, asset) for field in data.fields for asset in data.assets]
        frame.columns = pandas.MultiIndex.from_tuples(pairs, names=["field", "asset"])
    return frame


def as_frame(columns: Mapping[str, Any], backend: str, purpose: str) -> Any:
    """Create a frame from columns: NumPy arrays, Arrow arrays or lists.

    Args:
        columns: columns by name, equally long.
        backend: `pandas`, `polars` or `pyarrow`.
        purpose: method that needs the package, for the error if it is not installed.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    try:
        # Frames of pandas come from users who have it: no extra installs it.
        optional_import(backend, "" if backend == "pandas" else "data", purpose)
    except MissingExtraError as error:
        others = " or ".join(repr(other) for other in BACKENDS if other != backend)
        raise MissingExtraError(f"{error}, or pass backend={others}") from error
    optional_import("pyarrow", "data", purpose)
    table = _table(columns)
    if backend == "pyarrow":
        return table
    frame = optional_import("narwhals", "data", purpose).from_native(table, eager_only=True)
    return frame.to_pandas() if backend == "pandas" else frame.to_polars()


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


def _long(data: MarketData) -> dict[str, Any]:
    """Rows of the cells with a value."""
    valued = np.isfinite(data.values).any(axis=2) | data.quoted
    return _columns(data, np.flatnonzero(valued))


def _wide(data: MarketData) -> dict[str, Any]:
    columns: dict[str, Any] = {"time": _timestamps(data, np.arange(len(data)))}
    for field in data.fields:
        for index, asset in enumerate(data.assets):
            columns[f"{field}/{asset}"] = data.field(field)[:, index]
    return columns


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


def _table(columns: Mapping[str, Any]) -> Any:
    pa = arrow()
    return pa.table(
        {
            name: pa.array(np.ascontiguousarray(column))
            if isinstance(column, np.ndarray)
            else column
            for name, column in columns.items()
        }
    )
