"""Games whose optimum is known: both dare in two steps, and landmarks are shared out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sekai.training import MADDPG, QMIX, Agent
from tests.training.optima.task import Task
from tests.training.optima.teams import SPREAD, TWO_STEP


@pytest.mark.timeout(300)
def test_both_dare_in_the_game_of_two_steps() -> None:
    assert TWO_STEP.run(QMIX, 0) == 1.0


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
@pytest.mark.parametrize("task", [TWO_STEP, SPREAD], ids=lambda task: task.name)
def test_nine_of_ten_seeds_find_the_optimum(
    task: Task, kind: type[Agent], record_property: Callable[[str, object], None]
) -> None:
    shares = [task.run(kind, seed) for seed in range(task.seeds)]

    record_property("shares", shares)
    assert task.found(shares) >= task.needed(task.seeds), shares
