"""Windows of a file that does not fit in memory are trained on within a budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.data.peak_memory import WINDOW_BYTES, peaks

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is measured as Linux shows it"
)

# In a process of its own, whose peak is nobody else's. In each of the two ways of observing, about
# as many windows are read as the file has, in the random order of short episodes.
SCRIPT = """
import sys
import numpy as np
import sekai
from sekai.data import MarketData, Windows

def megabytes(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

path, rows, envs = sys.argv[1], int(sys.argv[2]) + 59, 256
rng = np.random.default_rng(0)
panel = rng.standard_normal((rows, 20, 8), np.float32)
names = [f"A{place}" for place in range(20)]
times = np.datetime64("1990-01-01T00:00", "m") + np.arange(rows)
prices = np.repeat(np.exp(0.001 * np.cumsum(panel[:, :, 0], axis=0))[:, :, None], 2, axis=2)
data = MarketData(times, names, ("open", "close"), prices)
features = [f"F{place}" for place in range(8)]
Windows.write(path + "/windows", panel, 60, times=times, assets=names, features=features)
windows = Windows.open(path + "/windows")

def vector(observation):
    vec = sekai.make_vec("Portfolio-v0", envs, data=data, features=windows, lookback=60,
                         observation=observation, episode_rows=4)
    vec.reset(seed=0)
    return vec

def check(shown, infos):
    row = int(infos[7]["time_index"])
    assert np.array_equal(shown, panel[row - 59 : row + 1]), row

index, window = vector("index"), vector("window")
actions = rng.dirichlet(np.ones(21), envs)
before = megabytes("VmHWM")
memory = []
for step in range(max(4, rows // envs)):
    result = window.step(actions)
    check(result.observations["windows"][7], result.infos)
    result = index.step(actions)
    memory = [*memory[-16:], result.observations["index"][:, 0]]
    picks = rng.choice(np.concatenate(memory), envs)
    picks[0] = memory[-1][7]
    check(index.batch.windows.gather(picks)[0], result.infos)
print(megabytes("VmHWM") - before, megabytes("VmHWM"))
"""


def test_training_on_two_hundred_megabytes_takes_less_than_64_of_memory(tmp_path: Path) -> None:
    grown, _ = peaks(SCRIPT, tmp_path, 200 * 10**6 // WINDOW_BYTES, timeout=60)

    assert grown < 64


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_training_on_five_gigabytes_takes_less_than_one_and_a_half_of_memory(
    tmp_path: Path,
) -> None:
    try:
        grown, peak = peaks(SCRIPT, tmp_path, 5 * 10**9 // WINDOW_BYTES, timeout=1500)
    finally:
        shutil.rmtree(tmp_path)

    assert grown < 128
    assert peak < 1500
