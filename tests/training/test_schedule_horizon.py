"""A training in two halves equals one in a piece, with schedules that end at a horizon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sekai.training import A2C, DDPG, DQN, MADDPG, PPO, QMIX, SAC, TD3, Agent, RecurrentPPO
from tests.training.distributed.walks import picking_walk
from tests.training.games import TwoStep

OFF_POLICY = {
    "n_envs": 4,
    "steps_per_iteration": 4,
    "learning_starts": 8,
    "batch_size": 8,
    "buffer_size": 64,
    "learning_rate_schedule": "linear",
}
"""Fewer envs and steps than usual, and a schedule, which off-policy agents come without."""

CASES: dict[str, tuple[type[Agent], Any, dict[str, Any]]] = {
    "PPO Trading": (PPO, "Trading-v0", {"n_envs": 4, "n_steps": 8}),
    "PPO Portfolio": (PPO, "Portfolio-v0", {"n_envs": 4}),
    "PPO MarketMaking": (PPO, "MarketMaking-v0", {"n_envs": 4}),
    "RecurrentPPO Trading": (RecurrentPPO, "Trading-v0", {"n_envs": 4, "n_steps": 8}),
    "A2C Trading": (A2C, "Trading-v0", {"n_envs": 4}),
    "A2C Portfolio": (A2C, "Portfolio-v0", {"n_envs": 4}),
    "A2C MarketMaking": (A2C, "MarketMaking-v0", {"n_envs": 4}),
    "DDPG Portfolio": (DDPG, "Portfolio-v0", OFF_POLICY),
    "DDPG MarketMaking": (DDPG, "MarketMaking-v0", OFF_POLICY),
    "TD3 Portfolio": (TD3, "Portfolio-v0", OFF_POLICY),
    "SAC Portfolio": (SAC, "Portfolio-v0", OFF_POLICY),
    "SAC MarketMaking": (SAC, "MarketMaking-v0", OFF_POLICY),
    "DQN Trading": (DQN, "Trading-v0", OFF_POLICY),
    "DQN masks": (DQN, picking_walk, OFF_POLICY),
    "MADDPG MultiPortfolio": (MADDPG, "MultiPortfolio-v0", OFF_POLICY),
    "QMIX two-step game": (QMIX, None, OFF_POLICY),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("case", CASES)
def test_two_halves_with_a_stated_horizon_equal_one_piece(case: str, tmp_path: Path) -> None:
    kind, env, changes = CASES[case]

    def world() -> Any:
        return TwoStep(4) if env is None else env

    whole = kind(world(), seed=5, **changes)
    count = 2 * whole.iteration_steps
    whole.fit(2 * count)

    half = kind(world(), seed=5, **changes).fit(count, total=2 * count)
    path = half.save(tmp_path / "agent.safetensors")
    resumed = kind.resume(path, count, env=world())

    kept = resumed.network.state_dict()
    for name, weights in whole.network.state_dict().items():
        assert torch.equal(weights, kept[name]), name
    assert resumed.total_steps == whole.total_steps == 2 * count


def _rates(agent: PPO) -> set[float]:
    learner = agent.learners[""]
    return {group["lr"] for group in learner.gradient_step.optimizer.param_groups}


def test_a_horizon_is_kept_where_it_lies_ahead_and_moved_where_training_goes_beyond() -> None:
    agent = PPO("MarketMaking-v0", n_envs=2, n_steps=2, batch_size=4)
    rate = agent.settings.learning_rate

    agent.fit(4, total=16)
    agent.fit(4)
    assert agent.total_steps == 16
    assert _rates(agent) == {rate * (1 - 4 / 16)}

    agent.fit(12)
    assert agent.total_steps == 20
    assert _rates(agent) == {rate * (1 - 16 / 20)}


def test_a_horizon_that_is_over_is_refused() -> None:
    agent = PPO("MarketMaking-v0", n_envs=2, n_steps=2).fit(4)

    with pytest.raises(ValueError, match="total must be above the 4 steps trained so far"):
        agent.fit(8, total=4)

    assert agent.total_steps == 4
