"""Games of two agents who are paid together, and how they learn them."""

from __future__ import annotations

from typing import Any

from sekai.training import MADDPG, QMIX, Agent
from tests.training.games import Spread, TwoStep, played, share_of_optimum
from tests.training.optima.task import Recipe, Task

__all__ = ["SPREAD", "TWO_STEP"]

SMALL: dict[str, Any] = {
    "steps_per_iteration": 16,
    "learning_starts": 500,
    "batch_size": 64,
    "learning_rate": 1e-2,
    "tau": 0.05,
    "policy": {"net_arch": (32,)},
}
LARGE: dict[str, Any] = {
    "steps_per_iteration": 25,
    "learning_starts": 1_600,
    "batch_size": 512,
    "gradient_steps": 2,
    "learning_rate_schedule": "linear",
    "tau": 0.05,
    "gamma": 0.95,
}


def two_step_share(agent: Agent) -> float:
    """The share of what is to be had in `TwoStep`."""
    return float(played(agent, TwoStep(1))[0] / TwoStep.optimum)


TWO_STEP = Task(
    name="two-step",
    make=TwoStep,
    judge=two_step_share,
    recipes={
        QMIX: Recipe(envs=8, steps=4_000, settings={**SMALL, "exploration_steps": 2_000}),
        MADDPG: Recipe(
            envs=8, steps=4_000, settings={**SMALL, "exploration_eps": 0.3, "actor_lr_scale": 0.5}
        ),
    },
    enough=1.0,
    seeds=10,
    found_by=0.9,
)
# What was tried long ago says little of what is worth doing now that the other has learnt: little
# is remembered. Of that little enough has to be other than usual: two who both go the long way
# round, or to the same landmark, only learn of something better where the other strayed.
SPREAD = Task(
    name="spread",
    make=lambda envs: Spread(envs, masked=True),
    judge=share_of_optimum,
    recipes={
        QMIX: Recipe(
            envs=32,
            steps=25_600,
            settings={
                **LARGE,
                "learning_rate": 5e-3,
                "buffer_size": 12_800,
                "share": "none",
                "exploration_steps": 8_000,
                "exploration_final_eps": 0.1,
                "policy": {"activation": "relu"},
            },
        ),
        MADDPG: Recipe(
            envs=32,
            steps=25_600,
            settings={
                **LARGE,
                "learning_rate": 1e-2,
                "buffer_size": 6_400,
                "exploration_eps": 0.3,
                "actor_lr_scale": 0.3,
            },
        ),
    },
    enough=0.98,
    seeds=10,
    found_by=0.9,
)
