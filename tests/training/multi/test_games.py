"""Games whose optimum is known: both dare in two steps, and landmarks are shared out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sekai.training import MADDPG, QMIX, Agent
from tests.training.optima.teams import SPREAD, TWO_STEP


@pytest.mark.timeout(300)
def test_both_dare_in_the_game_of_two_steps() -> None:
    assert TWO_STEP.run(QMIX, 0) == 1.0


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
def test_nine_of_ten_seeds_dare(
    kind: type[Agent], record_property: Callable[[str, object], None]
) -> None:
    shares = [TWO_STEP.run(kind, seed) for seed in range(TWO_STEP.seeds)]

    record_property("shares", shares)
    assert TWO_STEP.found(shares) >= TWO_STEP.needed(TWO_STEP.seeds), shares


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
def test_nine_of_ten_seeds_share_out_the_landmarks(
    kind: type[Agent], record_property: Callable[[str, object], None]
) -> None:
    shares = [SPREAD.run(kind, seed) for seed in range(SPREAD.seeds)]

    record_property("shares", shares)
    assert SPREAD.found(shares) >= SPREAD.needed(SPREAD.seeds), shares
