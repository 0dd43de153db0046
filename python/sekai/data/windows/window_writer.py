"""Writes the windows of a panel, a piece at a time, and all of them or none."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sekai.data.features.feature_panel import FeaturePanel
from sekai.data.market_data import MarketData
from sekai.data.windows.npy_file import CHUNK_BYTES, NpyWriter
from sekai.data.windows.window_index import INDEX, METADATA, VALUES, Metadata, write_index

__all__ = ["WriteOptions", "write_windows"]


class WriteOptions(TypedDict, total=False):
    """What can be said of windows that are written.

    * `times`: when each row of the panel was known; needed if the panel does not say.
    * `assets`, `features`: their names; needed if the panel does not say.
    * `columns`: what else is known of each row of the panel, such as its fold.
    * `dtype`: float32, if not given, or float64.
    """

    times: ArrayLike
    assets: Sequence[str]
    features: Sequence[str]
    columns: Mapping[str, ArrayLike]
    dtype: DTypeLike


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A panel, and all that is said of it."""

    values: NDArray[Any]
    times: NDArray[Any]
    assets: tuple[str, ...]
    features: tuple[str, ...]
    columns: dict[str, NDArray[Any]]
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        wanted = (len(self.times), len(self.assets), len(self.features))
        if self.values.shape != wanted or 0 in wanted:
            raise ValueError(
                f"a panel of {wanted[0]} times, {wanted[1]} assets and {wanted[2]} features was "
                f"wanted, found shape {self.values.shape}"
            )
        for name, column in self.columns.items():
            if column.shape != self.times.shape:
                raise ValueError(
                    f"column {name!r} must have {wanted[0]} values, was of shape {column.shape}"
                )


def write_windows(
    path: Path, panel: MarketData | FeaturePanel | ArrayLike, lookback: int, options: WriteOptions
) -> None:
    """Write a folder with the window of each row that has `lookback` rows up to it."""
    source = _source(panel, options)
    if not 1 <= lookback <= len(source.times):
        raise ValueError(f"lookback must be from 1 to {len(source.times)} rows, was {lookback}")
    if path.exists():
        raise FileExistsError(f"{path} is there already: remove it, or choose another name")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    draft.mkdir()
    try:
        _write_folder(draft, source, lookback)
        draft.rename(path)
    except BaseException:
        shutil.rmtree(draft)
        raise


def _write_folder(folder: Path, source: _Source, lookback: int) -> None:
    with (folder / VALUES).open("wb") as file:
        sha256 = _write_values(file, source, lookback)
        file.flush()
        os.fsync(file.fileno())
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
        # Of the rows of this piece alone: a panel in a file is not read at once either.
        rows = np.asarray(source.values[first : first + step + lookback - 1], source.dtype)
        slid = np.lib.stride_tricks.sliding_window_view(rows, lookback, axis=0)
        writer.write(np.moveaxis(slid, -1, 1))
    return writer.finish()


def _feature_names(panel: Any) -> tuple[str, ...] | None:
    """What market data and panels of features call their last axis."""
    if isinstance(panel, MarketData):
        return panel.fields
    return panel.names if isinstance(panel, FeaturePanel) else None


def _source(panel: MarketData | FeaturePanel | ArrayLike, options: WriteOptions) -> _Source:
    if unknown := sorted(options.keys() - WriteOptions.__annotations__.keys()):
        wanted = sorted(WriteOptions.__annotations__)
        raise TypeError(f"some of {wanted} were wanted, found {unknown}")
    said: Mapping[str, Any] = options
    fields = _feature_names(panel)

    def told(name: str) -> Any:
        found = said.get(name, fields if name == "features" and fields else None)
        found = getattr(panel, name, None) if found is None else found
        if found is None:
            raise ValueError(f"{name} must be given: the panel does not say")
        return found

    columns = said.get("columns", {})
    return _Source(
        values=np.asarray(getattr(panel, "values", panel)),
        times=np.asarray(told("times")),
        assets=tuple(told("assets")),
        features=tuple(told("features")),
        columns={name: np.asarray(column) for name, column in columns.items()},
        dtype=np.dtype(said.get("dtype", np.float32)),
    )
