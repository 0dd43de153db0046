"""The TensorBoard tracker writes files that TensorBoard reads."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sekai.error import ClosedError, MissingExtraError
from sekai.stats import EpisodeStats, StatsTracker, TensorBoardTracker


def episode(episode_return: float, length: int) -> EpisodeStats:
    return EpisodeStats(episode_return, length, elapsed_time=0.5, terminated=True)


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """The points that TensorBoard itself finds."""
    reader: Any = importlib.import_module(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(folder))
    reader.Reload()
    return [(point.step, point.value) for point in reader.Scalars(tag)]


def test_tensorboard_reads_the_curves_back(tmp_path: Path) -> None:
    with TensorBoardTracker(tmp_path / "run") as tracker:
        for number in range(3):
            tracker.on_reset("Walk-v0", None)
            tracker.on_episode_end(episode(1.5 * number, 10 + number))

    assert curve(tmp_path / "run", "episode/return") == [(10, 0.0), (21, 1.5), (33, 3.0)]
    assert curve(tmp_path / "run", "episode/length") == [(10, 10.0), (21, 11.0), (33, 12.0)]
    assert curve(tmp_path / "run", "episode/elapsed_time") == [(10, 0.5), (21, 0.5), (33, 0.5)]
    assert isinstance(tracker, StatsTracker)
    assert tracker.summary() == {"episodes": 3, "steps": 33, "log_dir": str(tmp_path / "run")}


def test_curves_are_on_disk_after_a_flush(tmp_path: Path) -> None:
    with TensorBoardTracker(tmp_path, prefix="train") as tracker:
        tracker.on_episode_end(episode(2.0, 5))
        tracker.flush()

        assert curve(tmp_path, "train/return") == [(5, 2.0)]


def test_nothing_is_written_before_the_first_episode(tmp_path: Path) -> None:
    with TensorBoardTracker(tmp_path / "run") as tracker:
        tracker.on_reset("Walk-v0", 0)
        tracker.flush()

    assert not (tmp_path / "run").exists()


def test_a_restored_tracker_continues_the_curve(tmp_path: Path) -> None:
    with TensorBoardTracker(tmp_path / "first") as tracker:
        tracker.on_episode_end(episode(1.0, 7))
    with TensorBoardTracker(tmp_path / "second") as restored:
        restored.load_state_dict(tracker.state_dict())
        restored.on_episode_end(episode(2.0, 3))

    assert curve(tmp_path / "second", "episode/return") == [(10, 2.0)]


def test_a_closed_tracker_says_so_and_counts_nothing(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path)
    tracker.close()
    tracker.close()

    with pytest.raises(ClosedError, match="open a new one"):
        tracker.on_episode_end(episode(1.0, 1))

    assert tracker.summary()["episodes"] == 0


def test_a_missing_package_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)

    with pytest.raises(MissingExtraError, match=r"'tensorboard'.*\.\[train\]"):
        TensorBoardTracker(tmp_path)


def test_importing_the_trackers_does_not_import_tensorboard() -> None:
    script = (
        "import sys\nimport sekai.stats\n"
        "assert not {'tensorboard', 'torch', 'tensorflow'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", script], check=True)
