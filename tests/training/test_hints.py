"""Errors of agents point out the names of stable-baselines3, and common aliases."""

from __future__ import annotations

import re
from typing import Any

import pytest

import sekai
from sekai.error import UnknownEnvError
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
    PPOSettings,
    RecurrentPPO,
)
from tests.worlds import RandomWalk

ALGORITHMS: list[type[Agent]] = [PPO, RecurrentPPO, A2C, DDPG, TD3, SAC, DQN, MADDPG, QMIX]

every_algorithm = pytest.mark.parametrize("kind", ALGORITHMS, ids=lambda kind: kind.__name__)


@every_algorithm
@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("lr", "learning_rate"),
        ("clip", "clip_range"),
        ("entropy_coef", "ent_coef"),
        ("epochs", "n_epochs"),
        ("discount", "gamma"),
        ("lam", "gae_lambda"),
        ("value_coef", "vf_coef"),
        ("minibatch_size", "batch_size"),
        ("num_envs", "n_envs"),
        ("rollout_steps", "n_steps"),
        ("grad_clip", "max_grad_norm"),
        ("replay_size", "buffer_size"),
        ("polyak", "tau"),
        ("warmup_steps", "learning_starts"),
    ],
)
def test_an_alias_names_the_setting(kind: Any, alias: str, name: str) -> None:
    has_setting = name in kind.settings_type.__dataclass_fields__

    with pytest.raises(ValueError, match=f"has no setting '{alias}'") as error:
        kind(RandomWalk, **{alias: 1})

    assert (f"did you mean '{name}'?" in str(error.value)) == has_setting


@every_algorithm
@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ({"policy_kwargs": {}}, "pass policy={...}"),
        ({"verbose": 1}, "pass progress=True to fit"),
        ({"tensorboard_log": "runs"}, "pass the callback Track(folder) to fit"),
        ({"total_timesteps": 1000}, "pass the steps to fit"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_an_argument_of_stable_baselines3_names_its_place(
    kind: Any, argument: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(remedy)):
        kind(RandomWalk, **argument)


@every_algorithm
def test_an_env_behind_its_policy_is_a_hint(kind: Any) -> None:
    for arguments in (("MlpPolicy", RandomWalk), ("MlpPolicy", "gymnasium/CartPole-v1")):
        with pytest.raises(TypeError, match=rf"env comes first.*: {kind.__name__}\(env\)"):
            kind(*arguments)
    with pytest.raises(TypeError, match=r"expected 1 positional argument, the env, got 2.*policy="):
        kind(RandomWalk, "mlp")
    with pytest.raises(TypeError, match="env comes first"):
        kind("CnnPolicy")


@pytest.mark.parametrize(
    ("policy", "name"), [("MlpPolicy", "mlp"), ("CnnPolicy", "cnn"), ("MultiInputPolicy", "auto")]
)
def test_policies_of_stable_baselines3_name_the_backbone(policy: str, name: str) -> None:
    for kind in (PPO, SAC):
        with pytest.raises(ValueError, match=rf"got '{policy}'; did you mean '{name}'\?"):
            kind(RandomWalk, policy=policy)
    with pytest.raises(ValueError, match=r"got 'attenton'; did you mean 'attention'\?"):
        PPO(RandomWalk, policy="attenton")


@every_algorithm
def test_an_id_of_gymnasium_is_a_hint(kind: Any) -> None:
    pytest.importorskip("gymnasium")

    with pytest.raises(UnknownEnvError, match=r"did you mean 'gymnasium/CartPole-v1'\?"):
        kind("CartPole-v1")


def test_subclasses_may_take_other_arguments() -> None:
    class Own(PPO):
        def __init__(self, env: Any, count: int) -> None:
            super().__init__(env, settings=PPOSettings(n_envs=count))

    assert Own(RandomWalk, 3).vec.num_envs == 3


@pytest.mark.parametrize(
    "make", [sekai.make, lambda id: sekai.make_vec(id, 2), sekai.registry.spec]
)
def test_ids_of_gymnasium_are_hints_of_the_registry(make: Any) -> None:
    pytest.importorskip("gymnasium")

    for id in ("CartPole-v1", "Pendulum-v1"):
        with pytest.raises(UnknownEnvError, match=rf"did you mean 'gymnasium/{id}'\?"):
            make(id)
    with pytest.raises(UnknownEnvError) as error:
        make("Nonexistent-v7")
    assert "did you mean" not in str(error.value)
