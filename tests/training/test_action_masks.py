"""Masks that envs report in `info` alone are kept to, in training and when acting."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import SpaceError
from sekai.evaluation import evaluate
from sekai.spaces import Space
from sekai.spaces.masks import allows
from sekai.training import A2C, DQN, MADDPG, PPO, QMIX, Agent, Evaluate, RecurrentPPO, load_policy
from sekai.training.training_envs import play
from sekai.vector import AsyncVecEnv, ProcVecEnv, SyncVecEnv
from sekai.vector.multi_agent import MultiAgentVecEnv
from tests.training.barred import (
    PICKS,
    SEVERAL,
    Barred,
    BarredBatch,
    BarredTeam,
    Stuck,
    drawn_mask,
)
from tests.training.optima.batch import vector

QUICK: dict[str, Any] = {"n_steps": 16, "seed": 2, "policy": {"net_arch": (8,)}}
TEAM: dict[str, Any] = {**QUICK, "n_envs": 4}
REPLAY: dict[str, Any] = {
    "steps_per_iteration": 16,
    "seed": 2,
    "policy": {"net_arch": (8,)},
    "n_envs": 4,
    "learning_starts": 64,
    "batch_size": 16,
    "buffer_size": 512,
}
MANY = {name: value for name, value in REPLAY.items() if name != "n_envs"}


@pytest.mark.parametrize(
    ("kind", "options"), [(PPO, QUICK), (RecurrentPPO, QUICK), (A2C, QUICK), (DQN, MANY)]
)
@pytest.mark.parametrize("actions", [12_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_actions_in_training_and_evaluation_keep_to_the_masks(
    kind: type[Agent], options: dict[str, Any], actions: int
) -> None:
    batch, judged = BarredBatch(256), BarredBatch(256)
    agent = kind(vector(batch), **options)

    agent.fit(actions)
    play(agent, vector(judged), actions // 9, seed=1)

    assert batch.actions >= actions
    assert judged.actions >= actions


@pytest.mark.parametrize("space", [PICKS, SEVERAL], ids=["one pick", "two picks"])
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_masks_of_single_envs_are_kept_to(kind: type[Agent], space: Space[Any]) -> None:
    make = partial(Barred, space)
    agent = kind(make, n_envs=4, **QUICK)

    agent.fit(1_000, [Evaluate(make, every=4, episodes=8)])

    alone = kind(make(), **QUICK).fit(100)
    assert alone.vec.num_envs == 1


def test_masks_of_single_envs_are_kept_to_with_a_replay_buffer() -> None:
    agent = DQN(Barred, **REPLAY)

    agent.fit(1_000, [Evaluate(Barred, every=4, episodes=8)])

    drawn = agent.replay.sample(200)
    actions = drawn["action"][:, 0]
    assert bool(drawn["observation"]["action_mask"][torch.arange(200), actions].all())
    assert not drawn["next"]["action_mask"].all()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", [SyncVecEnv, AsyncVecEnv, partial(ProcVecEnv, num_workers=2)])
def test_masks_of_every_kind_of_vector_env_are_kept_to(kind: Any) -> None:
    with kind([Barred] * 4) as vec:
        PPO(vec, **QUICK).fit(256)


@pytest.mark.parametrize(
    ("kind", "options"), [(PPO, TEAM), (A2C, TEAM), (QMIX, REPLAY), (MADDPG, REPLAY)]
)
def test_masks_of_several_agents_are_kept_to(kind: type[Agent], options: dict[str, Any]) -> None:
    agent = kind(BarredTeam, **options)

    agent.fit(800, [Evaluate(BarredTeam, every=4, episodes=8)])

    stored = agent.vec.reset(seed=1).observations["masks"]
    assert {name: rows.shape for name, rows in stored.items()} == {"one": (4, 4), "other": (4, 5)}


@pytest.mark.timeout(180)
def test_masks_of_several_agents_in_processes_are_kept_to() -> None:
    vec = MultiAgentVecEnv([BarredTeam] * 4, mode="proc", num_workers=2)

    PPO(vec, **QUICK).fit(256)

    vec.close()


@pytest.mark.parametrize("space", [PICKS, SEVERAL], ids=["one pick", "two picks"])
def test_a_policy_from_a_file_takes_the_envs_own_observations_and_masks(
    space: Space[Any], tmp_path: Path
) -> None:
    agent = PPO(partial(Barred, space), n_envs=2, **QUICK).fit(64)
    policy: Any = load_policy(agent.save(tmp_path))
    rng = np.random.default_rng(0)

    for _ in range(50):
        seen, mask = rng.normal(size=2).astype(np.float32), drawn_mask(rng, space)
        pick = policy.predict(seen, deterministic=False, action_mask=mask)
        assert mask is None or allows(space, mask, pick)


def test_evaluation_keeps_to_masks_that_some_envs_report() -> None:
    agent = PPO(Barred, n_envs=2, **QUICK).fit(64)

    found = evaluate(agent, Barred, seeds=6, baselines={"same": agent}, sensitivity=False)

    assert found is not None


@pytest.mark.parametrize("kind", [PPO, QMIX])
def test_evaluation_of_several_agents_keeps_to_masks(kind: type[Agent]) -> None:
    options = TEAM if kind is PPO else REPLAY
    agent = kind(BarredTeam, **options).fit(64)

    found = evaluate(agent, BarredTeam, seeds=6, baselines={"same": agent}, sensitivity=False)

    assert found is not None


def test_training_that_resumes_keeps_to_the_mask_in_force(tmp_path: Path) -> None:
    agent = PPO(Barred, n_envs=4, **QUICK).fit(64)

    resumed = PPO.resume(agent.save(tmp_path), 64, env=Barred)

    agent.fit(64)
    for one, other in zip(agent.network.parameters(), resumed.network.parameters(), strict=True):
        assert bool((one == other).all())


def test_a_mask_that_allows_nothing_is_a_typed_error() -> None:
    with pytest.raises(SpaceError, match="action_mask of env 0 allows nothing: end the episode"):
        PPO(Stuck, n_envs=2, **QUICK).fit(64)
    agent = PPO(partial(Barred, SEVERAL), n_envs=2, **QUICK)
    with pytest.raises(SpaceError, match="allows nothing for pick 1"):
        agent.predict(np.zeros(2, np.float32), action_mask=([1, 0, 1], [0, 0]))


def test_masks_are_asked_for_beside_the_observations_that_an_env_shows() -> None:
    agent = PPO(Barred, n_envs=2, **QUICK)

    assert agent.vec.observation_space == Barred().observation_space
