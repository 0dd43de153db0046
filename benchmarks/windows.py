"""Throughput of window gathering, compared with a plain copy and with NumPy indexing.

CPU time, medians of interleaved repetitions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measure import interleaved, medians, show
from sekai.data.windows.panel_windows import PanelWindows
from sekai.data.windows.window_file import Windows

SHAPES = (
    (5040, 5, 5, 20, 1024),
    (5040, 20, 8, 60, 16),
    (5040, 20, 8, 60, 256),
    (20_000, 100, 16, 60, 256),
)
"""Rows, assets, features, lookback and batch of each comparison."""


def in_memory(rows: int, assets: int, features: int, lookback: int, batch: int) -> list[str]:
    """Gigabytes per second of CPU time, for a panel in memory."""
    rng = np.random.default_rng(0)
    windows = panel_windows(rng.standard_normal((rows, assets, features), np.float32), lookback)
    picks = rng.integers(lookback - 1, rows, batch)
    indices = picks[:, None] + np.arange(1 - lookback, 1)
    out = windows.gather(picks)
    other = out.copy()
    rates = gigabytes(
        out.nbytes,
        {
            "copy": lambda: np.copyto(out, other),
            "ours": lambda: windows.gather(picks, out),
            "indexing": lambda: windows.panel[indices],
            "take": lambda: np.take(windows.panel, indices, axis=0, out=out, mode="clip"),
        },
    )
    shape = f"{batch} x {lookback} x {assets} x {features}, {out.nbytes / 1e6:.1f} MB"
    return [shape, *(f"{rates[name]:.1f}" for name in ("copy", "ours", "indexing", "take"))]


def in_file(batch: int = 256) -> list[str]:
    """Gigabytes per second of CPU time, for a file in the page cache."""
    rng = np.random.default_rng(1)
    panel = panel_windows(rng.standard_normal((5040, 20, 8), np.float32), 60)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "windows"
        Windows.write(
            path, panel.panel, 60, times=panel.times, assets=panel.assets, features=panel.features
        )
        mapped = np.lib.format.open_memmap(path / "windows.npy", mode="r")
        with Windows.open(path) as windows:
            picks = rng.integers(0, len(windows), batch)
            out = windows.gather(picks)
            other = out.copy()
            rates = gigabytes(
                out.nbytes,
                {
                    "copy": lambda: np.copyto(out, other),
                    "ours": lambda: windows.gather(picks, out),
                    "map": lambda: np.take(mapped, picks, axis=0, out=out, mode="clip"),
                },
            )
    return [f"{out.nbytes / 1e6:.1f} MB", *(f"{rates[name]:.1f}" for name in rates)]


def panel_windows(panel: NDArray[np.float32], lookback: int) -> PanelWindows:
    """Windows of a panel with placeholder names."""
    rows, assets, features = panel.shape
    return PanelWindows(
        panel,
        lookback,
        times=np.datetime64("2000-01-01", "m") + np.arange(rows),
        assets=[f"A{index}" for index in range(assets)],
        features=[f"F{index}" for index in range(features)],
    )


def gigabytes(size: int, subjects: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Gigabytes per second of each subject at `size` bytes per call."""
    calls = max(1, 2 * 10**7 // size)

    def repeated(run: Callable[[], object]) -> Callable[[], int]:
        def work() -> int:
            for _ in range(calls):
                run()
            return size * calls

        return work

    times = medians(interleaved({name: repeated(run) for name, run in subjects.items()}))
    return {name: 1 / nanoseconds for name, nanoseconds in times.items()}


def main() -> None:
    """Measure panels in memory, and a file."""
    methods = ["copy", "ours", "NumPy's indexing", "NumPy's take"]
    show(
        "Windows of a panel, GB/s of CPU time",
        ["batch", *methods],
        [in_memory(*shape) for shape in SHAPES],
    )
    show("Windows of a file, GB/s of CPU time", ["batch", "copy", "ours", "map"], [in_file()])


if __name__ == "__main__":
    main()
