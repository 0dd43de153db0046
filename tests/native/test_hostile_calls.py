"""Hostile calls: whatever the native core is given, the process lives and no panic reaches it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quant_gym_rs._core as core
from sekai.error import SekaiError

ROOT = Path(__file__).parent.parent.parent


def survives(*arguments: str, seconds: float = 50) -> None:
    """Run hostile calls in a process of their own."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.native.hostile", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=seconds,
        check=False,
    )
    story = child.stderr[child.stderr.find("failures:") :][-2000:]
    assert child.stdout == "alive\n", f"exit code {child.returncode} after:\n{story}"


def test_a_size_that_memory_cannot_hold_is_an_error_and_the_process_lives() -> None:
    survives("sizes")


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_arguments_are_refused_by_errors_that_have_a_name(seed: int) -> None:
    survives("calls", str(seed), "2500")


@pytest.mark.parametrize("seed", [1, 2])
def test_states_that_were_changed_and_sealed_again_are_refused_or_go_on(seed: int) -> None:
    survives("states", str(seed), "1500")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize("mode", ["calls", "states"])
def test_many_hostile_calls_leave_the_process_alive(mode: str, seed: int) -> None:
    survives(mode, str(seed), "60000", seconds=1700)


@pytest.mark.parametrize("clip", [-1.0, float("nan"), -float("inf")])
def test_a_clip_without_a_range_is_refused_and_teaches_nothing(clip: float) -> None:
    moments = core.RunningMoments(2)
    moments.update(np.ones((3, 2)))

    with pytest.raises(ValueError, match="clip must be at least 0"):
        moments.normalise(np.ones((1, 2)), clip=clip)

    assert moments.count == 3


@pytest.mark.parametrize("firsts", [[], [1], [1, 2], [0, 9]])
def test_masks_of_features_need_an_owner_for_every_channel(firsts: list[int]) -> None:
    with pytest.raises(ValueError, match="rise from 0 to below 3"):
        core.show_features(np.ones((4, 2, 3)), None, firsts)


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**40])
def test_a_number_of_threads_that_nobody_has_is_refused(threads: int) -> None:
    panel, out = np.ones((9, 1, 1), np.float32), np.ones((1, 2, 1, 1), np.float32)

    with pytest.raises(ValueError, match=f"num_threads must be from 1 to 1024, got {threads}"):
        core.gather_windows(panel, np.array([4]), 2, out, threads)


CALLS: dict[str, tuple[Any, ...]] = {
    "priced_places": (np.ones((3, 2, 0)), []),
    "seen_places": (np.ones((3, 2, 0)), np.ones((3, 2), np.bool_)),
    "join_features": ([np.ones((3, 2, 0))], np.ones((3, 2), np.bool_)),
}


@pytest.mark.parametrize("name", CALLS)
def test_panels_without_anything_in_them_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        getattr(core, name)(*CALLS[name])


def test_a_batch_in_use_says_so_by_an_error_of_the_package() -> None:
    from sekai.error import BusyError

    assert issubclass(BusyError, SekaiError)
