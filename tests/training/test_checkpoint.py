"""Checkpoints that are resumed without running episodes, or with other arguments."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sekai
from sekai.data import simulate_gbm
from sekai.error import StateError
from sekai.training import (
    A2C,
    DDPG,
    DQN,
    MADDPG,
    PPO,
    QMIX,
    SAC,
    TD3,
    Agent,
    Checkpoint,
    ModelFileError,
    PPOSettings,
    RecurrentPPO,
    latest_checkpoint,
)
from sekai.training.checkpoint import read_file
from sekai.vector import SyncVecEnv
from sekai.wrappers import TimeLimit
from tests.worlds import RandomWalk

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


SMALL: dict[str, Any] = {"learning_starts": 8, "batch_size": 4, "steps_per_iteration": 4}
TEAM: dict[str, Any] = {"agents": 2, "action": "tilts", "reward_mode": "cooperative"}
KINDS: list[tuple[type[Agent], dict[str, Any]]] = [
    (PPO, {"env": "MarketMaking-v0", "n_steps": 4}),
    (RecurrentPPO, {"env": "MarketMaking-v0", "n_steps": 4}),
    (A2C, {"env": "MarketMaking-v0", "n_steps": 4}),
    (DDPG, {"env": "MarketMaking-v0", **SMALL}),
    (TD3, {"env": "MarketMaking-v0", **SMALL}),
    (SAC, {"env": "MarketMaking-v0", **SMALL}),
    (DQN, {"env": "Trading-v0", **SMALL}),
    (MADDPG, {"env": "MultiPortfolio-v0", **SMALL}),
    (QMIX, {"env": "MultiPortfolio-v0", "env_options": TEAM, **SMALL}),
]


@pytest.mark.parametrize(
    ("kind", "arguments"), KINDS, ids=lambda part: getattr(part, "__name__", "")
)
def test_a_resume_with_another_number_of_envs_is_refused(
    kind: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    path = kind(n_envs=4, **arguments).fit(32).save(tmp_path)

    with pytest.raises(
        ModelFileError,
        match=rf"trained on 4 envs, got 2; pass n_envs=4, .* or use {kind.__name__}\.load",
    ):
        kind.resume(path, 8, n_envs=2)
    assert kind.resume(path, 16, n_envs=4).steps == 48
    assert kind.load(path, n_envs=2).fit(8).steps > 32


def test_a_refused_resume_leaves_the_passed_vector_env_as_it_was(tmp_path: Path) -> None:
    path = PPO(SyncVecEnv([RandomWalk] * 4), n_steps=4).fit(16).save(tmp_path)
    fewer, equal = (SyncVecEnv([RandomWalk] * count) for count in (3, 4))
    twin, actions = SyncVecEnv([RandomWalk] * 3), np.ones((3, 2), np.float32)
    fewer.reset(seed=1)
    twin.reset(seed=1)

    with pytest.raises(ModelFileError, match="trained on 4 envs, got 3"):
        PPO.resume(path, 8, env=fewer)

    assert fewer.step(actions) == twin.step(actions)
    assert PPO.resume(path, 16, env=equal).steps == 32
    assert PPO.load(path, env=fewer).vec is fewer
    for count in (8, PPOSettings.n_envs):
        with pytest.raises(ValueError, match=f"n_envs must be 3, .* got {count}"):
            PPO.load(path, env=fewer, n_envs=count)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"lr": 1e-3}, "PPOSettings has no setting 'lr'"),
        ({"learning_rate": -1.0}, "learning_rate must be finite and above 0, got -1"),
        ({"policy": "mlq"}, "backbone must be one of"),
        ({"device": "cudda"}, "unknown device 'cudda'"),
        ({"reward_transform": 3}, "reward_transform must be a function, got 3"),
        ({"settings": None}, "settings is that of the file; pass single hyperparameters by name"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_a_wrong_argument_of_resume_is_not_blamed_on_the_env(
    argument: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = PPO("MarketMaking-v0", n_envs=2, n_steps=4).fit(8).save(tmp_path)

    for method in (PPO.load, PPO.resume):
        with pytest.raises((TypeError, ValueError), match=words) as error:
            method(path, **argument)
        assert "env" not in str(error.value).replace("env_", "")


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (lambda: RandomWalk(), "the function '<lambda>'"),
        (RandomWalk, "the class 'RandomWalk'"),
        (RandomWalk(), "an instance of 'RandomWalk'"),
        (SyncVecEnv([RandomWalk] * 2), "an instance of 'SyncVecEnv'"),
    ],
    ids=["lambda", "class", "env", "vector"],
)
def test_a_file_of_an_env_without_an_id_says_what_it_was_trained_on(
    env: Any, kind: str, tmp_path: Path
) -> None:
    count: dict[str, Any] = {"n_envs": 2} if callable(env) else {}
    agent = PPO(env, n_steps=4, **count).fit(8)
    path = agent.save(tmp_path)

    for method in (PPO.load, PPO.resume):
        with pytest.raises(ModelFileError) as error:
            method(path)
        assert f"it was trained on {kind}, which has no id: pass env=..." in str(error.value)
        assert "data in memory" not in str(error.value)
        assert "env_options" not in str(error.value)


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
