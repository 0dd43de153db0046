"""What agents that come and go learn from, against trajectories followed one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sekai.training import A2C, PPO
from sekai.training.agent import Agent
from sekai.training.multi_agent.groups import GroupRollout
from sekai.training.observations import tensors_of
from tests.training.games import Chain
from tests.training.multi.worlds import AGENTS, Coming

PLAIN = {"net_arch": (8,), "norm_obs": False}


def comer(**settings: Any) -> PPO:
    """An agent for three that come and go, with one rollout behind it."""
    agent = PPO(
        Coming,
        seed=3,
        n_envs=4,
        n_steps=40,
        gamma=0.9,
        gae_lambda=0.8,
        norm_reward=False,
        policy=PLAIN,
        **settings,
    )
    with agent.randomness:
        agent._start(agent.seed)
        agent.rollout.fill(lambda seen: agent.network.choose(seen, deterministic=False))
    return agent


def followed(agent: PPO, env: int, name: str) -> dict[int, float]:
    """Advantages of one agent in one env by the step, out of what the env itself has told."""
    told = agent.vec.inner.vec.envs[env].unwrapped.told  # type: ignore[attr-defined]
    values = values_of(agent, name)[:, env]
    steps = [step for step, (acting, _, _) in enumerate(told) if name in acting]
    found: dict[int, float] = {}
    ahead = 0.0
    for place in reversed(range(len(steps))):
        step = steps[place]
        result = told[step][1]
        done = result.terminated[name] or result.truncated[name]
        later = steps[place + 1 :]
        is_over = any(not told[other][2] for other in range(step, later[0] if later else 40))
        if not done and ((not later and name not in told[-1][2]) or is_over):
            # What came of it is not known.
            ahead = 0.0
            found[step] = np.nan
            continue
        if done:
            after = 0.0 if result.terminated[name] else final_value(agent, name, result, env)
            ahead = 0.0
        else:
            after = values[later[0]] if later else values[40]
        ahead = result.rewards[name] + 0.9 * after - values[step] + 0.9 * 0.8 * ahead
        found[step] = float(ahead)
    return found


def learner_of(agent: PPO, name: str) -> Any:
    learners: Any = agent.learners
    return next(one for one in learners.values() if name in one.rollout.group.agents)


@torch.no_grad()
def values_of(agent: PPO, name: str) -> Any:
    learner = learner_of(agent, name)
    rows: GroupRollout = learner.rollout
    rows.read()
    values = learner._values(41 * rows.count).reshape(41, len(rows.group.agents), 4)
    return values[:, rows.group.agents.index(name)].numpy()


@torch.no_grad()
def final_value(agent: PPO, name: str, result: Any, env: int) -> float:
    learner = learner_of(agent, name)
    group = learner.rollout.group
    seen = tensors_of(result.observations[name][None])
    which = torch.tensor([group.agents.index(name)])
    return float(learner.network.critic(group.with_agent_index(seen, which)))


@pytest.mark.parametrize("share", ["all", "none", {"two": ["a", "c"], "one": ["b"]}])
def test_advantages_are_those_of_each_agent_followed_alone(share: Any) -> None:
    agent = comer(share=share)

    kinds = set()
    for name in AGENTS:
        learner = learner_of(agent, name)
        group = learner.rollout.group
        batch = learner.batch()
        own = {
            int(place): float(advantage)
            for place, advantage in zip(batch.rows, batch.advantages, strict=True)
        }
        for env in range(4):
            row = group.agents.index(name) * 4 + env
            wanted = followed(agent, env, name)
            for step in range(40):
                place = step * learner.rollout.count + row
                kinds.add((step in wanted, place in own))
                if np.isnan(wanted.get(step, np.nan)):
                    assert place not in own
                else:
                    assert own[place] == pytest.approx(wanted[step], abs=1e-4)
    # There were steps of both kinds: agents that acted, and agents that were away.
    assert kinds >= {(True, True), (False, False)}


def test_agents_that_were_away_leave_no_trace_in_moments() -> None:
    agent = PPO(Coming, seed=3, n_envs=4, n_steps=40, share="none")

    agent.fit(160)

    for name in AGENTS:
        told = [env.unwrapped.told for env in agent.vec.inner.vec.envs]  # type: ignore[attr-defined]
        acted = sum(name in acting for rows in told for acting, _, _ in rows)
        normalizer = learner_of(agent, name).network.inputs.normalizer
        assert normalizer is not None
        assert int(normalizer.count_0) == acted < 160
        assert int(learner_of(agent, name).scaler.count) == acted


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [PPO, A2C])
@pytest.mark.parametrize("critic", ["own", "central"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_constant_reward_is_worth_its_sum(kind: type[Agent], critic: str, is_cut: bool) -> None:
    agent: Any = kind(
        Chain(8, is_cut),
        seed=0,
        n_steps=12,
        gamma=0.5,
        gae_lambda=0.5,
        learning_rate=1e-2,
        norm_reward=False,
        critic=critic,
        policy={"net_arch": (16,)},
    )
    agent.fit(8 * 12 * (30 if kind is PPO else 200))

    (learner,) = agent.learners.values()
    learner.rollout.read()
    with torch.no_grad():
        values = learner._values(12 * learner.rollout.count).reshape(12, -1)[:, 0].numpy()
    wanted = [2.0, 2.0, 2.0] if is_cut else [1.75, 1.5, 1.0]
    np.testing.assert_allclose(values[:3], wanted, atol=0.1)
