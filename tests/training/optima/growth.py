"""Growing wealth: Kelly's bet and Merton's weight, and how agents learn them."""

from __future__ import annotations

from typing import Any

from sekai.training import A2C, DDPG, PPO, SAC, TD3, Agent
from tests.training.optima.batch import vector
from tests.training.optima.judging import kelly_share, merton_share
from tests.training.optima.kelly import Kelly
from tests.training.optima.merton import Merton
from tests.training.optima.task import Recipe, Task

__all__ = ["AVERSION", "KELLY", "MERTON_LOG", "MERTON_POWER"]

AVERSION = 1.5
"""Relative risk aversion of Merton's power utility."""

ENOUGH = 0.95

# A bet changes nothing about the bets after it: looking far ahead would only add noise. What is
# left of it is large beside what bets differ by, so that many are learnt from at once.
BOTH: dict[str, Any] = {
    "policy": {"net_arch": (32, 32)},
    "learning_rate_schedule": "linear",
    "gamma": 0.5,
}
OFF: dict[str, Any] = {
    **BOTH,
    "learning_rate": 3e-3,
    "actor_lr_scale": 0.2,
    "learning_starts": 12_800,
    "batch_size": 1024,
}
# Tried widely, bets beyond the bounds are cut to them, and being at a bound looks less risky than
# it is: numbers that are tried less widely are not drawn there.
ON: dict[str, Any] = {
    **BOTH,
    "gae_lambda": 0.5,
    "policy": {"net_arch": (32, 32), "std_init": 0.25},
    "learning_rate": 5e-3,
}
RECIPES: dict[type[Agent], Recipe] = {
    PPO: Recipe(envs=256, steps=400_000, settings={**ON, "n_steps": 32}),
    A2C: Recipe(envs=64, steps=300_000, settings=ON),
    DDPG: Recipe(envs=256, steps=128_000, settings=OFF),
    # The actor moves half as often as the critics.
    TD3: Recipe(envs=256, steps=128_000, settings={**OFF, "actor_lr_scale": 0.5}),
    SAC: Recipe(envs=256, steps=128_000, settings=OFF),
}

KELLY = Task(
    name="kelly",
    make=lambda envs: vector(Kelly(envs)),
    judge=kelly_share,
    recipes=RECIPES,
    enough=ENOUGH,
)
MERTON_LOG = Task(
    name="merton-log",
    make=lambda envs: vector(Merton(envs)),
    judge=lambda agent: merton_share(agent, 1.0),
    recipes=RECIPES,
    enough=ENOUGH,
)
MERTON_POWER = Task(
    name="merton-power",
    make=lambda envs: vector(Merton(envs, AVERSION, simplex=True)),
    judge=lambda agent: merton_share(agent, AVERSION),
    recipes=RECIPES,
    enough=ENOUGH,
)
