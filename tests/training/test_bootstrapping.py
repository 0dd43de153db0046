"""Critics learn what constant rewards are worth: where episodes are cut off, and where they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sekai.training import A2C, DDPG, PPO, SAC, TD3, Agent
from sekai.training.off_policy import OffPolicyAgent
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.judging import critic_values

DISCOUNT = 0.5
PLACES = 4
ON: dict[str, Any] = {"n_steps": 16, "learning_rate": 1e-2, "policy": {"net_arch": (16,)}}
OFF: dict[str, Any] = {
    "steps_per_iteration": 16,
    "learning_starts": 128,
    "batch_size": 128,
    "tau": 0.2,
    "learning_rate": 1e-2,
    "policy": {"net_arch": (16,)},
}
RECIPES: list[tuple[type[Agent], int, dict[str, Any]]] = [
    (PPO, 12_000, ON),
    (A2C, 60_000, {**ON, "n_steps": 8}),
    (DDPG, 2_000, OFF),
    (TD3, 2_000, OFF),
    (SAC, 2_000, OFF),
]


def _values(agent: Any) -> NDArray[np.float64]:
    """What the critics say of each place, in rewards of the env."""
    seen = {"observation": torch.arange(PLACES).unsqueeze(-1).float() / PLACES}
    learner: Any = agent
    if not isinstance(agent, OffPolicyAgent):
        learner = next(iter(agent.learners.values()))
    values: NDArray[np.float64] = critic_values(agent, seen) * float(learner.scaler.scale)
    return values


@pytest.mark.timeout(180)
@pytest.mark.parametrize("ends", [False, True], ids=["cut off", "ended"])
@pytest.mark.parametrize(("kind", "steps", "recipe"), RECIPES, ids=[r[0].__name__ for r in RECIPES])
def test_values_are_sums_of_the_series(
    kind: type[Agent], steps: int, recipe: dict[str, Any], ends: bool
) -> None:
    num_envs = 8 if issubclass(kind, OffPolicyAgent) else 32
    # Where the walk is cut off, at the second place, others walk on: so its worth can be learnt.
    chain = Chain(num_envs, True, PLACES, 3.0) if ends else Chain(num_envs, False, 6, 3.0, PLACES)
    agent = kind(vector(chain), seed=1, gamma=DISCOUNT, learning_rate_schedule="linear", **recipe)

    agent.fit(steps)

    assert np.allclose(_values(agent), chain.values(DISCOUNT), rtol=0.08)
