"""Precomputed windows in a file that may be larger than memory.

Windows.write("windows", data, lookback=60)
windows = Windows.open("windows")
batch = windows.gather([5, 17, 3])        # (3, 60, assets, features)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.market_data import MarketData, frozen
from sekai.data.windows.npy_file import NpyFile
from sekai.data.windows.panel_windows import as_rows, window_buffer
from sekai.data.windows.window_index import INDEX, METADATA, VALUES, Metadata, read_index
from sekai.data.windows.window_writer import WriteOptions, write_windows
from sekai.error import DataError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from sekai.data.features.feature_panel import FeaturePanel
    from sekai.data.features.pipeline import Pipeline

__all__ = ["Windows"]


class Windows:
    """Windows of the past in a file, each with a time: windows by lookback by assets by features.

    Only the windows that are asked for are read, into memory of the caller, so that a file of any
    size needs no more than a batch of them.
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
        """Use `Windows.open`, which reads and checks all of it."""
        self._values = values
        self._metadata = metadata
        self._place = values.path
        self._opened: dict[str, Any] = {}
        self.times = frozen(times)
        self.columns = MappingProxyType({name: frozen(array) for name, array in columns.items()})
        self.assets, self.features = names
        self.lookback = values.shape[1]
        self.dtype = values.dtype
        self.pipeline = pipeline
        """What computes windows of rows after those of the file; None if nobody said."""

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
        """Open a folder that `write` made, or an `.npy` file with a Parquet index beside it.

        Args:
            path: the folder, or the file of values.
            index: the index; if not given, in the folder, or of the same name as the file.
            assets: names of the assets, if no metadata tells them; numbered if nobody does.
            features: names of the features, likewise.
            pipeline: the fitted pipeline that made the windows. With it, an env shows windows of
                rows after those of the file too, such as those of a stream.

        Raises:
            DataError: when a file is not what it should be, or does not belong to the others.
            NotFittedError: when the pipeline is not fitted.
        """
        if pipeline is not None:
            pipeline.require_fitted()
        place = Path(path).absolute()
        beside = place / INDEX if place.is_dir() else place.with_suffix(".parquet")
        index_path = beside if index is None else Path(index).absolute()
        times, columns = read_index(index_path)
        metadata = Metadata.read(place / METADATA) if place.is_dir() else None
        values = NpyFile(place / VALUES if place.is_dir() else place)
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
        windows._opened = {
            "index": index_path, "assets": assets, "features": features, "pipeline": pipeline,
        }  # fmt: skip
        windows._place = place
        return windows

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        panel: MarketData | FeaturePanel | ArrayLike,
        lookback: int,
        **options: Unpack[WriteOptions],
    ) -> None:
        """Write a window for each row of a panel that has `lookback` rows up to it.

        Little of it is in memory at a time, and the folder is there when all of it is.

        Args:
            path: the folder to make; it must not be there yet.
            panel: rows by assets by features: market data, what a `Pipeline` made of it, an
                object that has `values`, `times`, `assets` and `features`, or an array.
            lookback: rows in a window.
            **options: what the panel does not say of itself, see `WriteOptions`.
        """
        write_windows(Path(path), panel, lookback, options)

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.times)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the file for itself.
        return _opened, (type(self), self._place, self._opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def digest(self) -> str:
        """A hash of the content; that of the values is taken from the metadata if there are any."""
        described = (self.assets, self.features, self.dtype.str, self._values.shape)
        state = hashlib.sha256(repr(described).encode())
        state.update(self.times.astype(np.int64).data)
        for name, column in sorted(self.columns.items()):
            state.update(repr((name, column.tolist())).encode())
        state.update((self._metadata.sha256 if self._metadata else self._read_sha256).encode())
        return state.hexdigest()

    def verify(self) -> None:
        """Read all values and check that they are those that were written."""
        if self._metadata is None:
            raise DataError(f"{self._values.path} has no metadata that tell what it should hold")
        found = self._values.sha256()
        if found != self._metadata.sha256:
            raise DataError(
                f"{self._values.path}: values of the hash {self._metadata.sha256} were wanted, "
                f"found {found}: the file was changed or damaged, write it again"
            )

    def require_order(self) -> None:
        """Raise unless there are windows, in the order of time, and one for each time."""
        if not len(self) or (np.diff(self.times) <= np.timedelta64(0)).any():
            raise DataError(
                "windows in the order of time, one for each time, were wanted, found "
                + ("others" if len(self) else "none at all")
            )

    def gather(self, rows: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The windows at `rows`: batch by lookback by assets by features.

        Args:
            rows: which windows, from 0 on.
            out: where to; a new array if not given.
        """
        places = as_rows(rows)
        out = window_buffer(out, (len(places), *self._values.shape[1:]), self.dtype)
        outside = (places < 0) | (places >= len(self))
        if outside.any():
            raise ValueError(f"rows from 0 to {len(self) - 1} were wanted, found "
                             f"{places[outside][0]}")  # fmt: skip
        self._read_runs(places, out)
        return out

    def close(self) -> None:
        """Give the file back; it can be done twice."""
        self._values.close()

    def _read_runs(self, places: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Rows that follow each other are read at once."""
        begins = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        edges = np.append(begins, len(places))
        for begin, end in pairwise(edges):
            self._values.read(int(places[begin]), out[begin:end])

    @cached_property
    def _read_sha256(self) -> str:
        return self._values.sha256()


def _opened(kind: type[Windows], place: Path, options: dict[str, Any]) -> Windows:
    return kind.open(place, **options)


def _names(
    values: NpyFile,
    metadata: Metadata | None,
    assets: Sequence[str] | None,
    features: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if len(values.shape) != 4 or 0 in values.shape[1:]:
        raise DataError(
            f"{values.path}: windows by lookback by assets by features were wanted, found shape "
            f"{values.shape}"
        )
    asset_count, feature_count = values.shape[2:]
    told = (metadata.assets, metadata.features) if metadata else (None, None)
    names = (
        tuple(assets or told[0] or (f"asset_{place}" for place in range(asset_count))),
        tuple(features or told[1] or (f"feature_{place}" for place in range(feature_count))),
    )
    if (len(names[0]), len(names[1])) != (asset_count, feature_count):
        raise DataError(
            f"{values.path}: names of {asset_count} assets and {feature_count} features were "
            f"wanted, found {len(names[0])} and {len(names[1])}"
        )
    return names
