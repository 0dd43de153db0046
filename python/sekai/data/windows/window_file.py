"""Rolling windows stored in a file that may be larger than memory.

Windows.write("windows", data, lookback=60, pipeline=pipeline)
windows = Windows.open("windows")
batch = windows.gather([5, 17, 3])        # (3, 60, assets, features)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.data.features.pipeline import FeaturePanel
from sekai.data.market_data import MarketData, frozen
from sekai.data.windows.npy_file import CHUNK_BYTES, NpyFile, NpyWriter
from sekai.error import DataError
from sekai.storage.display import name_list
from sekai.storage.files import new_folder
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from typing_extensions import Self

    from sekai.data.features.pipeline import Pipeline

VALUES, INDEX, METADATA = "windows.npy", "index.parquet", "metadata.json"
"""Files in a folder of windows."""
TIME = "time"
VERSION = 1


class Windows:
    """Rolling windows in a file: windows by lookback by assets by features.

    Only the gathered windows are read, so memory is bounded by a batch of them. Use `Windows.open`.
    """

    first_row = 0

    def __init__(
        self,
        values: NpyFile,
        times: NDArray[np.datetime64],
        columns: Mapping[str, NDArray[Any]],
        metadata: Metadata | None,
        names: tuple[tuple[str, ...], tuple[str, ...]],
        pipeline: Pipeline | None = None,
    ) -> None:
        self._values = values
        self._metadata = metadata
        self._path = values.path
        self._open_options: dict[str, Any] = {}
        self.times = frozen(times)
        self.columns = MappingProxyType({name: frozen(array) for name, array in columns.items()})
        self.assets, self.features = names
        self.lookback = values.shape[1]
        self.dtype = values.dtype
        self.pipeline = pipeline
        """Pipeline that computes windows of rows after the file; None if unknown."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        index: str | os.PathLike[str] | None = None,
        assets: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        pipeline: Pipeline | None = None,
    ) -> Self:
        """Open a folder written by `write`, or an `.npy` file with a Parquet index beside it.

        Args:
            path: folder, or file of values.
            index: Parquet index; by default in the folder, or named as the file.
            assets: asset names, if there are no metadata; numbered by default.
            features: feature names, likewise.
            pipeline: fitted pipeline that computed the windows. With it, an env also shows
                windows of later rows, such as those of a stream.

        Raises:
            DataError: if a file is malformed, or does not match the others.
            NotFittedError: if the pipeline is not fitted.
        """
        if pipeline is not None:
            pipeline.require_fitted()
        path = Path(path).absolute()
        beside = path / INDEX if path.is_dir() else path.with_suffix(".parquet")
        index_path = beside if index is None else Path(index).absolute()
        times, columns = read_index(index_path)
        metadata = Metadata.read(path / METADATA) if path.is_dir() else None
        values = NpyFile(path / VALUES if path.is_dir() else path)
        try:
            names = _names(values, metadata, assets, features)
            if len(times) != values.shape[0]:
                raise DataError(
                    f"{values.path} has {values.shape[0]} windows, its index {len(times)} rows"
                )
            windows = cls(values, times, columns, metadata, names, pipeline)
        except BaseException:
            values.close()
            raise
        windows._open_options = {
            "index": index_path,
            "assets": assets,
            "features": features,
            "pipeline": pipeline,
        }
        windows._path = path
        return windows

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        panel: MarketData | FeaturePanel | ArrayLike,
        lookback: int,
        *,
        pipeline: Pipeline | None = None,
        times: ArrayLike | None = None,
        assets: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        """Write a window for each row of a panel with `lookback` rows up to it.

        Memory is bounded, and the folder appears when it is complete.

        Args:
            path: new folder.
            panel: rows by assets by features: market data, the result of a `Pipeline`, an object
                with `values`, `times`, `assets` and `features`, or an array.
            lookback: rows in a window.
            pipeline: fitted pipeline that computes the features from market data; pass it to
                `Windows.open` as well to continue with later rows.
            times: timestamp of each row; required if the panel has none.
            assets: asset names; required if the panel has none.
            features: feature names; required if the panel has none.
            columns: further columns of the index by row, such as the fold.
            dtype: float32 or float64; by default that of the result of a pipeline, or float32.
        """
        shown = _computed(panel, pipeline)
        own = shown.values.dtype if isinstance(shown, FeaturePanel) else np.float32
        source = _Source(
            np.asarray(getattr(shown, "values", shown)),
            *panel_names(shown, times, assets, features),
            columns={name: np.asarray(column) for name, column in (columns or {}).items()},
            dtype=np.dtype(own if dtype is None else dtype),
        )
        if not 1 <= lookback <= len(source.times):
            raise ValueError(f"lookback must be from 1 to {len(source.times)}, got {lookback}")
        with new_folder(Path(path)) as draft:
            _write_folder(draft, source, lookback)

    def __len__(self) -> int:
        return len(self.times)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the file by itself.
        return _opened, (type(self), self._path, self._open_options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content; the hash of the values is taken from the metadata if present."""
        description = (self.assets, self.features, self.dtype.str, self._values.shape)
        state = hashlib.sha256(repr(description).encode())
        state.update(self.times.astype(np.int64).data)
        for name, column in sorted(self.columns.items()):
            state.update(repr((name, column.tolist())).encode())
        state.update((self._metadata.sha256 if self._metadata else self._values.sha256()).encode())
        return state.hexdigest()

    def __repr__(self) -> str:
        return (
            f"Windows({len(self):,} windows, lookback {self.lookback}, {len(self.assets)} assets, "
            f"features {name_list(self.features)}; {self._path.name})"
        )

    def to_frame(self, backend: str = "pandas") -> Any:
        """Convert the index to a frame: the time of each window, and its further columns.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        return as_frame({TIME: self.times, **self.columns}, backend, "Windows.to_frame")

    def verify(self) -> None:
        """Read all values and compare their hash with the metadata."""
        if self._metadata is None:
            raise DataError(f"{self._values.path} has no metadata to verify it against")
        sha256 = self._values.sha256()
        if sha256 != self._metadata.sha256:
            raise DataError(
                f"{self._values.path}: hash mismatch, expected {self._metadata.sha256}, got "
                f"{sha256}; the file was changed or damaged, write it again"
            )

    def require_order(self) -> None:
        """Raise unless there are windows with strictly ascending times."""
        if not len(self) or (np.diff(self.times) <= np.timedelta64(0)).any():
            raise DataError(
                "windows must be strictly ascending in time, got "
                + ("unsorted or duplicate times" if len(self) else "no windows")
            )

    def gather(self, rows: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Gather windows: batch by lookback by assets by features.

        Args:
            rows: window indices.
            out: output array; a new one by default.
        """
        indices = as_rows(rows)
        out = window_buffer(out, (len(indices), *self._values.shape[1:]), self.dtype)
        outside = (indices < 0) | (indices >= len(self))
        if outside.any():
            raise ValueError(f"rows must be from 0 to {len(self) - 1}, got {indices[outside][0]}")
        # Consecutive rows are read at once.
        begins = np.flatnonzero(np.diff(indices, prepend=-2) != 1)
        for begin, end in pairwise(np.append(begins, len(indices))):
            self._values.read(int(indices[begin]), out[begin:end])
        return out

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        self._values.close()


def as_rows(rows: ArrayLike) -> NDArray[np.int64]:
    """Validate row indices and convert them to a contiguous int64 array."""
    indices = np.asarray(rows)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(
            f"rows must be a list of integers, got {indices.dtype} of shape {indices.shape}"
        )
    return np.ascontiguousarray(indices, np.int64)


def window_buffer(
    out: NDArray[Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Output array for windows: `out` if it fits, or a new one."""
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be C-contiguous {dtype} of shape {shape}, got {out.dtype} of shape "
            f"{out.shape}"
        )
    if not out.flags.writeable:
        raise ValueError("out must be writable")
    return out


def _opened(kind: type[Windows], path: Path, options: dict[str, Any]) -> Windows:
    return kind.open(path, **options)


def _names(
    values: NpyFile,
    metadata: Metadata | None,
    assets: Sequence[str] | None,
    features: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if len(values.shape) != 4 or 0 in values.shape[1:]:
        raise DataError(
            f"{values.path}: shape must be windows by lookback by assets by features, got "
            f"{values.shape}"
        )
    asset_count, feature_count = values.shape[2:]
    if metadata is not None:
        assets, features = assets or metadata.assets, features or metadata.features
    names = (
        tuple(assets or (f"asset_{index}" for index in range(asset_count))),
        tuple(features or (f"feature_{index}" for index in range(feature_count))),
    )
    if (len(names[0]), len(names[1])) != (asset_count, feature_count):
        raise DataError(
            f"{values.path}: expected {asset_count} asset names and {feature_count} feature "
            f"names, got {len(names[0])} and {len(names[1])}"
        )
    return names


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    values: NDArray[Any]
    times: NDArray[Any]
    assets: tuple[str, ...]
    features: tuple[str, ...]
    columns: dict[str, NDArray[Any]]
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        shape = (len(self.times), len(self.assets), len(self.features))
        if self.values.shape != shape or 0 in shape:
            raise ValueError(
                f"panel must have {shape[0]} times, {shape[1]} assets and {shape[2]} features, got "
                f"shape {self.values.shape}"
            )
        for name, column in self.columns.items():
            if column.shape != self.times.shape:
                raise ValueError(
                    f"column {name!r} must have {shape[0]} values, got shape {column.shape}"
                )


def _write_folder(folder: Path, source: _Source, lookback: int) -> None:
    with (folder / VALUES).open("wb") as file:
        sha256 = _write_values(file, source, lookback)
    cut = slice(lookback - 1, None)
    columns = {name: column[cut] for name, column in source.columns.items()}
    write_index(folder / INDEX, source.times[cut], columns)
    metadata = Metadata(assets=source.assets, features=source.features, sha256=sha256)
    metadata.write(folder / METADATA)


def _write_values(file: IO[bytes], source: _Source, lookback: int) -> str:
    count = len(source.values) - lookback + 1
    shape = (count, lookback, *source.values.shape[1:])
    writer = NpyWriter(file, shape, source.dtype)
    step = max(1, CHUNK_BYTES // (int(np.prod(shape[1:])) * source.dtype.itemsize))
    for first in range(0, count, step):
        # A panel in a file is not read at once either.
        rows = np.asarray(source.values[first : first + step + lookback - 1], source.dtype)
        slid = np.lib.stride_tricks.sliding_window_view(rows, lookback, axis=0)
        writer.write(np.moveaxis(slid, -1, 1))
    return writer.finish()


def _feature_names(panel: Any) -> tuple[str, ...] | None:
    """Names of the last axis of market data and feature panels."""
    if isinstance(panel, MarketData):
        return panel.fields
    return panel.names if isinstance(panel, FeaturePanel) else None


def panel_names(
    panel: Any,
    times: ArrayLike | None,
    assets: Sequence[str] | None,
    features: Sequence[str] | None,
) -> tuple[NDArray[Any], tuple[str, ...], tuple[str, ...]]:
    """Times, assets and features of a panel, where they are not passed."""
    known: dict[str, Any] = {"times": times, "assets": assets, "features": features}
    fields = _feature_names(panel)
    for name, value in known.items():
        if value is None:
            value = fields if name == "features" and fields else getattr(panel, name, None)
        if value is None:
            raise ValueError(f"{name} is required: the panel has none")
        known[name] = value
    return np.asarray(known["times"]), tuple(known["assets"]), tuple(known["features"])


def _computed(panel: Any, pipeline: Pipeline | None) -> Any:
    """Result of the pipeline, or the panel itself without one."""
    if pipeline is None:
        return panel
    if not isinstance(panel, MarketData):
        raise TypeError(
            f"pipeline= computes features of market data, got a {type(panel).__name__}; pass a "
            "MarketData, or omit pipeline="
        )
    return pipeline.transform(panel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of a file of windows: names and hash."""

    assets: tuple[str, ...]
    features: tuple[str, ...]
    sha256: str
    """Hash of all values in the order of the file."""
    version: int = VERSION

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Metadata:
        """Read metadata written by `write`; raise `DataError` if they are malformed."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: malformed JSON: {error}") from error
        keys = {"assets", "features", "sha256", "version"}
        if not isinstance(content, dict) or content.keys() != keys:
            raise DataError(f"{path}: expected keys {sorted(keys)}, got {str(content)[:80]}")
        if content["version"] != VERSION:
            raise DataError(f"{path}: version must be {VERSION}, got {content['version']!r}")
        if not isinstance(content["sha256"], str):
            raise DataError(f"{path}: sha256 must be a string, got {content['sha256']!r}")
        return cls(
            assets=_name_list(path, "assets", content["assets"]),
            features=_name_list(path, "features", content["features"]),
            sha256=content["sha256"],
        )


def write_index(path: Path, times: ArrayLike, columns: Mapping[str, ArrayLike]) -> None:
    """Write the Parquet index: a row per window with its time in UTC and further columns."""
    arrow, parquet = _pyarrow()
    timestamps = np.asarray(times).astype("datetime64[ns]")
    if np.isnat(timestamps).any() or TIME in columns:
        raise ValueError(f"every window must have a time, and only one column named {TIME!r}")
    index = {TIME: arrow.array(timestamps, arrow.timestamp("ns", tz="UTC"))}
    for name, column in columns.items():
        values = np.asarray(column)
        if values.shape != timestamps.shape:
            raise ValueError(
                f"column {name!r} must have {len(timestamps)} values, got shape {values.shape}"
            )
        index[name] = arrow.array(values)
    parquet.write_table(arrow.table(index), path)


def read_index(path: Path) -> tuple[NDArray[np.datetime64], dict[str, NDArray[Any]]]:
    """Read the time of each window, and the other columns by name."""
    arrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(f"{path}: malformed Parquet file: {error}") from error
    if TIME not in table.column_names:
        raise DataError(f"{path}: missing column {TIME!r}; got {table.column_names}")
    time = table.column(TIME)
    if not (arrow.types.is_timestamp(time.type) or arrow.types.is_date(time.type)):
        raise DataError(f"{path}: column {TIME!r} must hold timestamps, got {time.type}")
    if time.null_count:
        raise DataError(f"{path}: every window must have a time, {time.null_count} have none")
    # Arrow stores UTC; the zone is only for display.
    times = time.to_numpy().astype("datetime64[ns]")
    others = [name for name in table.column_names if name != TIME]
    return times, {name: table.column(name).to_numpy() for name in others}


def _name_list(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise DataError(f"{path}: {key} must be a list of names, got {value!r}")
    return tuple(value)


def _pyarrow() -> tuple[Any, Any]:
    arrow, parquet = (
        optional_import(name, "data", "an index of windows")
        for name in ("pyarrow", "pyarrow.parquet")
    )
    return arrow, parquet
