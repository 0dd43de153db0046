"""Collects a row for each episode, and writes them to a file as a whole."""

from __future__ import annotations

import datetime
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.writer import LogWriter
from sekai.rendering.replacement import replacing

__all__ = ["Cell", "RowWriter"]

Cell: TypeAlias = "float | str | datetime.datetime | np.datetime64"
CELLS = (float, str, datetime.datetime, np.datetime64)


class RowWriter(LogWriter, ABC):
    """One row for each episode: what its floats, strings and times aggregate to.

    The file is replaced in one move, so that there is the old one or the new one: when all envs
    are done, when a collection is broken off (`flush`), and when the next one begins with rows
    that are not written yet.
    """

    state_names: ClassVar[tuple[str, ...]] = ("rows", "_is_written")
    file_name: ClassVar[str]

    def __init__(
        self, output_dir: str | os.PathLike[str], loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Write into `output_dir`, which is made if it is not there."""
        super().__init__(loglevel)
        self.output_dir = Path(output_dir)
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.rows: list[dict[str, Cell]] = []
        self._is_written = True

    @property
    def path(self) -> Path:
        """The file."""
        return self.output_dir / self.file_name

    def clear(self) -> None:
        """Begin a new file; rows of the last one are written first, if they are not yet."""
        self.flush()
        super().clear()
        self.rows = []

    def log_episode(
        self, length: int, rewards: list[float], contents: list[dict[str, Any]]
    ) -> None:
        """Keep the row of the episode."""
        values = self.aggregated(contents)
        self.rows.append({name: cell for name, cell in values.items() if isinstance(cell, CELLS)})
        self._is_written = False

    def on_env_all_done(self) -> None:
        """Write the file, even if there was no episode: an old one would mislead."""
        self._replace()

    def flush(self) -> None:
        """Write the rows that there are, unless they are written already."""
        if not self._is_written:
            self._replace()

    def columns(self) -> dict[str, list[Cell | None]]:
        """The rows as columns, in the order of their first appearance; None where one lacks it."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: [row.get(name) for row in self.rows] for name in names}

    def _replace(self) -> None:
        with replacing(self.path, self.path.suffix) as draft:
            self._write(draft)
        self._is_written = True

    @abstractmethod
    def _write(self, path: Path) -> None:
        """Write all rows to a new file."""
