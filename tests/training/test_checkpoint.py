"""Checkpoints of envs whose running episodes cannot be saved."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import sekai
from sekai.data import simulate_gbm
from sekai.error import StateError
from sekai.training import DDPG, PPO, Agent, Checkpoint, ModelFileError, latest_checkpoint
from sekai.training.checkpoint import read_file
from sekai.wrappers import TimeLimit

CART_POLE = "gymnasium/CartPole-v1"


def learner() -> PPO:
    return PPO(CART_POLE, n_envs=2, n_steps=8)


def wrapped() -> Any:
    return TimeLimit(sekai.make(CART_POLE), 50)


@pytest.mark.parametrize("env", [CART_POLE, wrapped], ids=["id", "wrapped"])
def test_the_default_checkpoint_keeps_all_but_running_episodes_and_says_so_once(
    env: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gymnasium")

    with caplog.at_level(logging.WARNING):
        agent = PPO(env, n_envs=2, n_steps=8).fit(48, [Checkpoint(tmp_path, every=1)])
        agent.save(tmp_path / "again")

    (record,) = caplog.records
    assert record.message.startswith(
        "running episodes cannot be saved; resumed training starts new ones"
    )
    file = latest_checkpoint(tmp_path)
    assert file is not None
    unsaved = read_file(file)["training"]["unsaved"]
    assert list(unsaved) == ["envs"]
    assert unsaved["envs"] in record.message


def test_a_resume_without_episodes_resets_the_envs_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("gymnasium")
    agent = learner().fit(48)
    path = agent.save(tmp_path)
    caplog.clear()

    resumed = PPO.resume(path, env=CART_POLE)

    assert "the envs were reset" in caplog.text
    assert _equal(resumed, agent)
    assert torch.equal(resumed.randomness.state, agent.randomness.state)
    assert _optimizer_steps(resumed) == _optimizer_steps(agent) > 0
    assert resumed.episodes.summary == agent.episodes.summary
    assert resumed.fit(16).steps == 64
    # Other episodes than those at the start of training.
    first = PPO.resume(path, env=CART_POLE).rollout.state()["seen"]
    assert not (learner().vec.reset(seed=0).observations == first).all()


def test_replay_and_target_networks_are_resumed_without_episodes(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    env = "gymnasium/Pendulum-v1"
    small: dict[str, Any] = {"n_envs": 2, "learning_starts": 16, "batch_size": 8}
    agent = DDPG(env, steps_per_iteration=16, buffer_size=500, **small).fit(96)

    resumed = DDPG.resume(agent.save(tmp_path), env=env)

    assert len(resumed.replay) == len(agent.replay) == 96
    assert _equal(resumed, agent)


def test_a_resume_names_all_arguments_that_it_needs(tmp_path: Path) -> None:
    options = {"data": simulate_gbm(assets=2, rows=200), "lookback": 4}
    path = PPO("Portfolio-v0", n_envs=2, n_steps=4, env_options=options).fit(8).save(tmp_path)

    for method in (PPO.load, PPO.resume):
        with pytest.raises(
            ModelFileError, match=r"env='Portfolio-v0' and env_options=\{'data': ..., 'lookback'"
        ):
            method(path)
    assert PPO.resume(path, 8, env="Portfolio-v0", env_options=options).steps == 16


def test_required_envs_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")

    with pytest.raises(StateError, match="envs=False"):
        learner().fit(16, [Checkpoint(tmp_path, every=1, envs=True)])
    assert latest_checkpoint(tmp_path) is None


def _equal(one: Agent, other: Agent) -> bool:
    own, theirs = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(own[name], theirs[name]) for name in theirs)


def _optimizer_steps(agent: PPO) -> float:
    states = agent.learners[""].gradient_step.optimizer.state_dict()["state"]
    return float(states[0]["step"])
