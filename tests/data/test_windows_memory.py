"""Windows of a file that does not fit in memory are written and read within a budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.data.peak_memory import WINDOW_BYTES, peaks

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is measured as Linux shows it"
)

# In a process of its own, whose peak is nobody else's. Reads as many bytes as the file has.
SCRIPT = """
import sys
import numpy as np
from sekai.data.windows.window_file import Windows

def megabytes(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

path, rows = sys.argv[1], int(sys.argv[2])
panel = np.random.default_rng(0).standard_normal((rows + 59, 20, 8), np.float32)
names = {"assets": [f"A{n}" for n in range(20)], "features": [f"F{n}" for n in range(8)]}
times = np.datetime64("1990-01-01", "m") + np.arange(rows + 59)
Windows.write(path + "/tiny", panel[:70], 60, times=times[:70], **names)
Windows.open(path + "/tiny").gather([0])
before = megabytes("VmHWM")

Windows.write(path + "/windows", panel, 60, times=times, **names)
windows, rng = Windows.open(path + "/windows"), np.random.default_rng(1)
out = np.empty((256, 60, 20, 8), np.float32)
for _ in range(max(1, rows // 256)):
    picks = rng.integers(0, rows, 256)
    windows.gather(picks, out)
    assert np.array_equal(out[7], panel[picks[7] : picks[7] + 60])
windows.verify()
print(megabytes("VmHWM") - before, megabytes("VmHWM"))
"""


def test_two_hundred_megabytes_take_less_than_64_of_memory(tmp_path: Path) -> None:
    grown, _ = peaks(SCRIPT, tmp_path, 200 * 10**6 // WINDOW_BYTES, timeout=60)

    assert grown < 64


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_five_gigabytes_take_less_than_one_and_a_half_of_memory(tmp_path: Path) -> None:
    try:
        grown, peak = peaks(SCRIPT, tmp_path, 5 * 10**9 // WINDOW_BYTES, timeout=1000)
    finally:
        shutil.rmtree(tmp_path)

    assert grown < 128
    assert peak < 1500
