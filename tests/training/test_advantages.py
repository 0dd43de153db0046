"""Advantages of a rollout equal those of a plain double loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sekai.training import A2C, PPO
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.training.optima.kelly import Kelly

DISCOUNT, TRACE = 0.9, 0.8


def _by_hand(agent: Any, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of all later errors of the critic, each weighted by how far away it is."""
    rollout, critic = agent.rollout, agent.network.critic
    seen = rollout.observations()["observation"]
    with torch.no_grad():
        values = torch.stack([critic({"observation": row})[:, 0] for row in seen]).numpy()
        # Chains and bets are cut off at the share 1 of their episode, which is seen nowhere else.
        last = float(critic({"observation": agent.last_seen})[0, 0])
    steps, envs = rewards.shape
    done = rollout.terminated | rollout.truncated
    found = np.zeros_like(rewards)
    for env in range(envs):
        for first in range(steps):
            weight = 1.0
            for step in range(first, steps):
                follows = last if rollout.truncated[step, env] else values[step + 1, env]
                follows = 0.0 if rollout.terminated[step, env] else follows
                error = rewards[step, env] + DISCOUNT * follows - values[step, env]
                found[first, env] += weight * error
                if done[step, env]:
                    break
                weight *= DISCOUNT * TRACE
    return found, found + values[:-1]


@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_advantages_are_those_of_a_double_loop(kind: type[Any], ends: bool, scaled: bool) -> None:
    agent = kind(
        vector(Chain(3, ends, episode_steps=4, reward=2.0)),
        seed=2,
        n_steps=11,
        gamma=DISCOUNT,
        gae_lambda=TRACE,
        norm_reward=scaled,
    )
    agent.last_seen = torch.ones(1, 1)
    agent._start(agent.seed)
    agent.rollout.fill(lambda seen: agent.network.choose(seen, deterministic=False))

    batch = agent.learners[""].batch()

    rewards = agent.rollout.rewards / (float(agent.learners[""].scaler.scale) if scaled else 1.0)
    advantages, targets = _by_hand(agent, rewards)
    assert np.allclose(batch.advantages.numpy().reshape(11, 3), advantages, atol=1e-5)
    assert np.allclose(batch.returns.numpy().reshape(11, 3), targets, atol=1e-5)


def test_samples_lie_as_the_rollout_does() -> None:
    plain = {"norm_obs": False}
    agent = PPO(vector(Kelly(3, (0.5, 0.9))), policy=plain, seed=1, n_steps=5)
    agent._start(agent.seed)
    agent.rollout.fill(lambda seen: agent.network.choose(seen, deterministic=False))

    batch = agent.learners[""].batch()

    seen = agent.rollout.observations()["observation"][:-1]
    assert torch.equal(batch.observations["observation"].reshape(5, 3, 1), seen)
    assert torch.equal(batch.actions.reshape(5, 3, 1), agent.rollout.chosen)
