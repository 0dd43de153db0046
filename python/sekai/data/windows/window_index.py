"""What belongs to precomputed windows besides their values: times, columns, names."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.error import DataError, MissingExtraError

__all__ = ["INDEX", "METADATA", "VALUES", "Metadata", "read_index", "write_index"]

VALUES, INDEX, METADATA = "windows.npy", "index.parquet", "metadata.json"
"""The files in a folder of windows."""

TIME = "time"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a file of windows does not say of itself."""

    assets: tuple[str, ...]
    features: tuple[str, ...]
    sha256: str
    """The hash of all values, in the order of the file."""
    version: int = VERSION

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Metadata:
        """Read what `write` wrote; anything else is a `DataError`."""
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} must be JSON: {error}") from error
        wanted = {"assets", "features", "sha256", "version"}
        if not isinstance(said, dict) or said.keys() != wanted:
            raise DataError(f"{path} must say {sorted(wanted)}, was {str(said)[:80]}")
        if said["version"] != VERSION:
            raise DataError(f"{path} must be of version {VERSION}, was {said['version']!r}")
        if not isinstance(said["sha256"], str):
            raise DataError(f"{path} must have a sha256 in letters, was {said['sha256']!r}")
        return cls(
            assets=_names(path, "assets", said["assets"]),
            features=_names(path, "features", said["features"]), sha256=said["sha256"],
        )  # fmt: skip


def write_index(path: Path, times: ArrayLike, columns: Mapping[str, ArrayLike]) -> None:
    """Write a row for each window: its time in UTC, and whatever else is known of it."""
    arrow, parquet = _pyarrow()
    stamps = np.asarray(times).astype("datetime64[ns]")
    if np.isnat(stamps).any() or TIME in columns:
        raise ValueError(f"every window must have a time, and one column named {TIME!r}")
    made = {TIME: arrow.array(stamps, arrow.timestamp("ns", tz="UTC"))}
    for name, column in columns.items():
        values = np.asarray(column)
        if values.shape != stamps.shape:
            raise ValueError(
                f"column {name!r} must have {len(stamps)} values, was of shape {values.shape}"
            )
        made[name] = arrow.array(values)
    parquet.write_table(arrow.table(made), path)


def read_index(path: Path) -> tuple[NDArray[np.datetime64], dict[str, NDArray[Any]]]:
    """The time of each window, and the other columns by name."""
    arrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(f"{path} must be a Parquet file: {error}") from error
    if TIME not in table.column_names:
        raise DataError(f"{path} must have a column {TIME!r}, has {table.column_names}")
    time = table.column(TIME)
    if not (arrow.types.is_timestamp(time.type) or arrow.types.is_date(time.type)):
        raise DataError(f"{path}: {TIME!r} must be times, was {time.type}")
    if time.null_count:
        raise DataError(f"{path}: every window must have a time, {time.null_count} have none")
    # A zone is only how Arrow shows a time; what is stored is UTC.
    times = time.to_numpy().astype("datetime64[ns]")
    others = [name for name in table.column_names if name != TIME]
    return times, {name: table.column(name).to_numpy() for name in others}


def _names(path: Path, what: str, found: Any) -> tuple[str, ...]:
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        raise DataError(f"{path}: {what} must be a list of names, was {found!r}")
    return tuple(found)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError.of("pyarrow", "data", "an index of windows") from error
