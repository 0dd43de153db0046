"""Small tables of sound bars, to be spoilt by tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

ASSETS = ("AAA", "BBB", "CCC")
FIELDS = ("open", "high", "low", "close", "volume")
ROOT = Path(__file__).parent.parent.parent


def bars(rows: int = 12, assets: tuple[str, ...] = ASSETS, seed: int = 0) -> pd.DataFrame:
    """Daily bars of some assets, in the order of time and then of assets."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2020-01-01", periods=rows, freq="D").repeat(len(assets))
    close = rng.uniform(50, 150, len(times)).round(2)
    spread = rng.uniform(0.1, 2.0, len(times)).round(2)
    return pd.DataFrame({
        "time": times,
        "symbol": list(assets) * rows,
        "open": close - spread / 2,
        "high": close + spread,
        "low": close - spread,
        "close": close,
        "volume": rng.integers(1, 1000, len(times)).astype(float),
    })  # fmt: skip


def stamp(text: str) -> np.datetime64:
    return np.datetime64(text, "ns")


def real(name: str) -> Path:
    """A file of real data; tests that need it are skipped where it is not."""
    folder = Path(os.environ.get("SEKAI_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / name).exists():
        pytest.skip(f"no {name}: name the folder that has it by SEKAI_DATA")
    return folder / name


def spoilt(frame: pd.DataFrame, row: int, field: str, value: Any) -> pd.DataFrame:
    frame = frame.copy()
    frame.loc[row, field] = value
    return frame
