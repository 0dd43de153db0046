"""Episodes as rows of a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import ClassVar

from sekai.compose.logs.row_writer import RowWriter

__all__ = ["CsvWriter"]


class CsvWriter(RowWriter):
    """Writes `result.csv`, one row for each episode; a cell is empty where an episode has none."""

    file_name: ClassVar[str] = "result.csv"

    def _write(self, path: Path) -> None:
        columns = self.columns()
        with path.open("x", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if columns:
                writer.writerow(columns)
            # Numbers are written by their shortest exact form.
            writer.writerows(zip(*columns.values(), strict=True))
