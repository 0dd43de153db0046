"""Games whose optimum is known: both dare in two steps, and landmarks are shared out."""

from __future__ import annotations

from typing import Any

import pytest

from sekai.training import MADDPG, QMIX, Agent
from tests.training.games import Spread, TwoStep, played, share_of_optimum

SEEDS = range(10)
TWO_STEP: dict[str, Any] = {
    "rollout_steps": 16, "warm_up": 500, "batch_size": 64, "learning_rate": 1e-2,
    "target_rate": 0.05, "policy": {"hidden": (32,)},
}  # fmt: skip
SPREAD: dict[str, Any] = {
    "rollout_steps": 25, "warm_up": 1_000, "batch_size": 128, "learning_rate": 5e-3,
    "target_rate": 0.05, "discount": 0.95,
}  # fmt: skip
OWN: dict[type[Agent], dict[str, dict[str, Any]]] = {
    QMIX: {"two": {"exploration_steps": 2_000}, "spread": {"exploration_steps": 4_000}},
    MADDPG: {
        "two": {"random_picks": 0.3, "actor_rate": 0.5},
        "spread": {"random_picks": 0.2},
    },
}


def two_step(kind: type[Agent], seed: int) -> bool:
    """Whether an agent that has learnt gets all there is."""
    agent = kind(TwoStep(8), seed=seed, **TWO_STEP, **OWN[kind]["two"]).fit(4_000)
    return bool(played(agent, TwoStep(1))[0] == TwoStep.optimum)


def spread(kind: type[Agent], seed: int, steps: int) -> float:
    """The share that an agent which has learnt gets of all there is."""
    agent = kind(Spread(8, masked=True), seed=seed, **SPREAD, **OWN[kind]["spread"]).fit(steps)
    return share_of_optimum(agent)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
def test_both_dare_in_the_game_of_two_steps(kind: type[Agent]) -> None:
    assert two_step(kind, 0)


@pytest.mark.timeout(300)
def test_landmarks_are_shared_out() -> None:
    assert spread(QMIX, 0, 8_000) > 0.98


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
def test_both_dare_whatever_the_seed(kind: type[Agent]) -> None:
    assert sum(two_step(kind, seed) for seed in SEEDS) >= 9


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", [QMIX, MADDPG])
def test_landmarks_are_shared_out_whatever_the_seed(kind: type[Agent]) -> None:
    assert sum(spread(kind, seed, 24_000) > 0.98 for seed in SEEDS) >= 9
