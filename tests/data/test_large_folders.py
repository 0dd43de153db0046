"""Folders that are larger than what is in memory at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

ROWS, ASSETS, FILES = 20_000, 1_000, 20
FIELDS = ("open", "high", "low", "close", "volume")
SCRIPT = """
import json, resource, sys
import pyarrow.dataset, pyarrow.parquet, pyarrow.compute
from sekai.data import MarketData
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
data = MarketData.from_parquet(sys.argv[1], assets=json.loads(sys.argv[2]))
print(json.dumps([peak() - before, data.values.nbytes / 2**20, int(data.quoted.sum())]))
"""


def write_folder(folder: Path) -> None:
    """Twenty million rows in twenty files, a thousand minutes each."""
    rng = np.random.default_rng(0)
    names = pa.array([f"S{place:04}" for place in range(ASSETS)])
    for place in range(FILES):
        rows = ROWS // FILES
        start = np.datetime64("2020-01-01T00:00", "ns")
        times = start + np.arange(place * rows, (place + 1) * rows) * np.timedelta64(1, "m")
        close = rng.uniform(50, 150, rows * ASSETS)
        columns = {
            "time": pa.array(np.repeat(times, ASSETS), pa.timestamp("ns", "UTC")),
            "symbol": pa.DictionaryArray.from_arrays(
                np.tile(np.arange(ASSETS, dtype=np.int32), rows), names
            ),
        }
        scale = {"open": 1.0, "high": 1.01, "low": 0.99, "close": 1.0, "volume": 3.0}
        columns |= {name: pa.array(close * scale[name]) for name in FIELDS}
        part = folder / f"part={place:02}"
        part.mkdir()
        pq.write_table(pa.table(columns), part / "rows.parquet", row_group_size=1 << 18)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_reading_takes_little_more_memory_than_the_panel(tmp_path: Path) -> None:
    import json

    write_folder(tmp_path)
    for assets, count in ((None, ROWS * ASSETS), (["S0001", "S0999"], 2 * ROWS)):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, tmp_path, json.dumps(assets)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        extra, panel, quoted = json.loads(run.stdout)

        assert quoted == count
        # Masks and their intermediates are a byte a cell; batches are a few megabytes.
        assert extra < panel * 1.25 + 200, f"{extra:.0f} MiB for a panel of {panel:.0f} MiB"
