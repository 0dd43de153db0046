"""Whatever a user trains on becomes many envs that act together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

import sekai
from sekai.registry import spec
from sekai.training import PPO, PPOSettings
from sekai.training.training_envs import as_vec_env
from sekai.vector import SyncVecEnv
from sekai.vector.native import NativeVecEnv
from sekai.vector.vec_env import VecEnv
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain
from tests.worlds import RandomWalk

gymnasium = pytest.importorskip("gymnasium")


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


def _acts(vec: Any) -> VecEnv:
    """The vector, once it has acted."""
    assert isinstance(vec, VecEnv)
    vec.reset(seed=0)
    vec.batched_action_space.seed(0)
    assert vec.step(vec.batched_action_space.sample()).rewards.shape == (vec.num_envs,)
    return vec


def test_an_id_becomes_as_many_native_envs_as_are_asked_for() -> None:
    vec = _acts(as_vec_env("Trading-v0", 3))

    assert isinstance(vec, NativeVecEnv)
    assert vec.num_envs == 3


def test_options_belong_to_an_id() -> None:
    usual = as_vec_env("Portfolio-v0", 2)
    vec = as_vec_env("Portfolio-v0", 2, {"max_episode_steps": 2})
    assert isinstance(vec, VecEnv)
    assert isinstance(usual, VecEnv)
    vec.reset(seed=0)
    vec.batched_action_space.seed(0)

    vec.step(vec.batched_action_space.sample())
    assert vec.step(vec.batched_action_space.sample()).truncated.all()

    with pytest.raises(ValueError, match="env_options need an env id"):
        as_vec_env(usual, 2, {"max_episode_steps": 2})


def test_a_spec_is_as_good_as_its_id() -> None:
    assert _acts(as_vec_env(spec("Trading-v0"), 2)).num_envs == 2


def test_a_vector_is_taken_as_it_is() -> None:
    vec = vector(Chain(5, ends=True))

    assert as_vec_env(vec, 64) is vec


def test_a_vector_that_begins_episodes_at_another_time_is_refused() -> None:
    vec = sekai.make_vec("Trading-v0", 2, autoreset="next_step")

    with pytest.raises(ValueError, match="training needs autoreset='same_step', got 'next_ste"):
        as_vec_env(vec, 2)


def test_an_env_stays_the_only_one() -> None:
    env = sekai.make("Trading-v0")

    assert _acts(as_vec_env(env, 64)).num_envs == 1


def test_a_function_is_called_for_each_env() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(sekai.make("Trading-v0"))
        return made[-1]

    vec = _acts(as_vec_env(make, 3))

    assert isinstance(vec, SyncVecEnv)
    assert len(made) == vec.num_envs == 3


def test_envs_of_gymnasium_are_taken_as_they_are() -> None:
    alone = _acts(as_vec_env(gymnasium.make("CartPole-v1"), 8))
    many = _acts(as_vec_env(lambda: gymnasium.make("CartPole-v1"), 2))

    assert (alone.num_envs, many.num_envs) == (1, 2)
    assert np.shape(many.reset(seed=1).observations) == (2, 4)


def test_a_number_of_envs_beside_envs_is_refused() -> None:
    walks, cart_poles = SyncVecEnv([RandomWalk] * 2), DummyVecEnv([cart_pole] * 2)

    for made, count in ((walks, 2), (cart_poles, 2), (RandomWalk(), 1), (cart_pole(), 1)):
        with pytest.raises(ValueError, match=rf"n_envs must be {count}, .* got 8; .* function"):
            PPO(made, n_envs=8)
        with pytest.raises(ValueError, match="got 8"):
            PPO(made, settings=PPOSettings(n_envs=8))
        for agent in (PPO(made), PPO(made, n_envs=count), PPO(made, settings=PPOSettings())):
            assert agent.settings.n_envs == agent.vec.num_envs == count


def test_what_is_no_env_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="cannot make envs from 3"):
        as_vec_env(3, 2)
    with pytest.raises(sekai.error.SekaiError):
        as_vec_env("NoSuchWorld-v0", 2)
