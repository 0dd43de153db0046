"""Table writers: one row per episode, as CSV or Parquet."""

from __future__ import annotations

import csv
import datetime
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sekai.compose.logs.collector import LogLevel
from sekai.compose.logs.writer import LogWriter
from sekai.error import DataError
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

__all__ = ["Cell", "CsvWriter", "ParquetWriter", "RowWriter"]

Cell: TypeAlias = "float | str | datetime.datetime | np.datetime64"
CELLS = (float, str, datetime.datetime, np.datetime64)


class RowWriter(LogWriter, ABC):
    """Log writer of one row per episode: its aggregated floats, strings and times.

    The file is replaced atomically: when all envs are done, when a collection is aborted
    (`flush`), and when the next one begins with rows that are not written yet.

    Args:
        output_dir: folder of the file, created if missing.
        loglevel: entries below this level are left out.
    """

    state_names: ClassVar[tuple[str, ...]] = ("rows", "_is_written")
    file_name: ClassVar[str]

    def __init__(
        self, output_dir: str | os.PathLike[str], loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        super().__init__(loglevel)
        self.output_dir = Path(output_dir)
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.rows: list[dict[str, Cell]] = []
        self._is_written = True

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.output_dir / self.file_name

    def clear(self) -> None:
        """Start a new file; unwritten rows of the last one are written first."""
        self.flush()
        super().clear()
        self.rows = []

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Add the row of the episode."""
        values = self.aggregated(contents)
        self.rows.append({name: cell for name, cell in values.items() if isinstance(cell, CELLS)})
        self._is_written = False

    def on_env_all_done(self) -> None:
        """Write the file, even without an episode: an old one would mislead."""
        self._replace()

    def flush(self) -> None:
        """Write the rows, unless they are written already."""
        if not self._is_written:
            self._replace()

    def columns(self) -> dict[str, list[Cell | None]]:
        """Rows as columns, in order of first appearance; None where a row has no value."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: [row.get(name) for row in self.rows] for name in names}

    def _replace(self) -> None:
        with replace_file(self.path, self.path.suffix) as draft:
            self._write(draft)
        self._is_written = True

    @abstractmethod
    def _write(self, path: Path) -> None:
        """Write all rows to a new file."""


class CsvWriter(RowWriter):
    """Log writer to `result.csv`, one row per episode; missing values are empty cells."""

    file_name: ClassVar[str] = "result.csv"

    def _write(self, path: Path) -> None:
        columns = self.columns()
        with path.open("x", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if columns:
                writer.writerow(columns)
            # Numbers are written in their shortest exact form.
            writer.writerows(zip(*columns.values(), strict=True))


class ParquetWriter(RowWriter):
    """Log writer to `result.parquet`, one row per episode; missing values are null.

    A column has values of one type: floats, strings or times.
    """

    file_name: ClassVar[str] = "result.parquet"

    def __init__(
        self, output_dir: str | os.PathLike[str], loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        _pyarrow("pyarrow.parquet")  # Fail now, not after a night of episodes.
        super().__init__(output_dir, loglevel)

    def _write(self, path: Path) -> None:
        columns = {name: _column(name, cells) for name, cells in self.columns().items()}
        _pyarrow("pyarrow.parquet").write_table(_pyarrow("pyarrow").table(columns), path)


def _column(name: str, cells: list[Cell | None]) -> Any:
    arrow = _pyarrow("pyarrow")
    try:
        return arrow.array(cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        kinds = sorted({type(cell).__name__ for cell in cells if cell is not None})
        raise DataError(
            f"column {name!r} must have values of one type, got {', '.join(kinds)}; log them under "
            "different names, or use a CsvWriter"
        ) from error


def _pyarrow(module: str) -> Any:
    return optional_import(module, "data", "ParquetWriter")
