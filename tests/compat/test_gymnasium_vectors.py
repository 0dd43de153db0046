"""Vector envs give the same numbers on either side of the bridge to gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from sekai.compat import from_gymnasium_vector, gymnasium_vector
from sekai.error import StateError
from sekai.vector import StepBuffers, SyncVecEnv
from sekai.wrappers import RecordEpisodeStatistics, TimeLimit
from tests.worlds import Market, RandomWalk

MODES = {
    "same_step": AutoresetMode.SAME_STEP,
    "next_step": AutoresetMode.NEXT_STEP,
    "disabled": AutoresetMode.DISABLED,
}


def cart_poles(mode: AutoresetMode, count: int = 3) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * count, autoreset_mode=mode)


@pytest.mark.parametrize("name", ["same_step", "next_step"])
def test_a_gymnasium_vector_gives_the_same_trajectory_through_us(name: str) -> None:
    direct, ours = cart_poles(MODES[name]), from_gymnasium_vector(cart_poles(MODES[name]))
    direct.action_space.seed(0)

    observations, _ = direct.reset(seed=4)
    result = ours.reset(seed=4)

    assert ours.autoreset == name
    assert np.array_equal(result.observations, observations)
    for _ in range(120):
        actions = direct.action_space.sample()
        observations, rewards, terminated, truncated, infos = direct.step(actions)
        step = ours.step(actions)
        assert np.array_equal(step.observations, observations)
        assert np.array_equal(step.rewards, rewards)
        assert np.array_equal(step.terminated, terminated)
        assert np.array_equal(step.truncated, truncated)
        for index in np.flatnonzero(infos.get("_final_obs", np.zeros(3, bool))).tolist():
            final = step.infos[index]["final_observation"]
            assert np.array_equal(final, infos["final_obs"][index])


@pytest.mark.parametrize("name", ["same_step", "next_step"])
def test_our_vector_gives_the_same_trajectory_through_gymnasium(name: Any) -> None:
    direct = SyncVecEnv([RandomWalk] * 3, autoreset=name)
    exported = gymnasium_vector(SyncVecEnv([RandomWalk] * 3, autoreset=name))
    exported.action_space.seed(0)

    result = direct.reset(seed=4)
    observations, infos = exported.reset(seed=4)

    assert exported.metadata["autoreset_mode"] is MODES[name]
    assert np.array_equal(observations, result.observations)
    assert infos["begun"].tolist() == [True, True, True]
    for _ in range(60):
        actions = exported.action_space.sample()
        step = direct.step(actions)
        observations, rewards, terminated, truncated, infos = exported.step(actions)
        assert observations in exported.observation_space
        assert np.array_equal(observations, step.observations)
        assert np.array_equal(rewards, step.rewards)
        assert np.array_equal(terminated | truncated, step.dones)
        if name == "same_step":
            ended = infos.get("_final_obs", np.zeros(3, bool))
            assert np.array_equal(ended, step.dones)
            for index in np.flatnonzero(ended).tolist():
                final = step.infos[index]["final_observation"]
                assert np.array_equal(infos["final_obs"][index], final)
                assert infos["final_info"]["_distance"][index]
                assert infos["distance"][index] == infos["final_info"]["distance"][index]


def test_nested_observations_and_actions_are_batched_as_gymnasium_does() -> None:
    exported = gymnasium_vector(SyncVecEnv([Market] * 2))

    observations, _ = exported.reset(seed=0)

    assert observations in exported.observation_space
    assert exported.single_action_space == gymnasium.spaces.Discrete(3)
    assert exported.action_space == gymnasium.spaces.MultiDiscrete([3, 3])
    assert exported.step(exported.action_space.sample())[0] in exported.observation_space


def test_a_wrapper_of_gymnasium_works_around_our_vector() -> None:
    vector = SyncVecEnv([lambda: TimeLimit(RandomWalk(), 5)] * 2, autoreset="next_step")
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium_vector(vector))
    env.reset(seed=0)

    infos = [env.step(np.zeros((2, 2), np.float32))[4] for _ in range(5)]

    assert infos[-1]["episode"]["l"].tolist() == [5, 5]


def test_some_envs_of_ours_are_reset_by_gymnasiums_mask() -> None:
    exported = gymnasium_vector(SyncVecEnv([RandomWalk] * 3, autoreset="disabled"))
    before, _ = exported.reset(seed=0)

    mask = np.array([False, True, False])
    after, infos = exported.reset(options={"reset_mask": mask})

    assert np.array_equal((before == after).all(axis=1), ~mask)
    assert infos["_begun"].tolist() == mask.tolist()


def test_some_envs_of_gymnasium_are_reset_by_our_ids() -> None:
    ours = from_gymnasium_vector(cart_poles(AutoresetMode.DISABLED))
    before = ours.reset(seed=0).observations

    rows = ours.reset(ids=[2, 0], seed=[5, 6]).observations

    alone = [gymnasium.make("CartPole-v1").reset(seed=seed)[0] for seed in (5, 6)]
    assert np.array_equal(rows, np.stack(alone))
    after = ours.step(np.zeros(3, np.int64)).observations
    assert not np.array_equal(before[0], after[0])


def test_results_can_be_written_into_buffers_of_the_caller() -> None:
    ours, twin = (from_gymnasium_vector(cart_poles(AutoresetMode.NEXT_STEP)) for _ in range(2))
    ours.reset(seed=0)
    twin.reset(seed=0)
    buffers = StepBuffers(
        np.zeros((3, 4), np.float32), np.zeros(3), np.zeros(3, bool), np.zeros(3, bool)
    )

    result = ours.step(np.ones(3, np.int64), out=buffers)

    assert result.observations is buffers.observations
    assert result == twin.step(np.ones(3, np.int64))


def test_attributes_and_methods_reach_every_env() -> None:
    ours = from_gymnasium_vector(cart_poles(AutoresetMode.NEXT_STEP, 2))
    exported = gymnasium_vector(SyncVecEnv([RandomWalk] * 2))

    ours.set_attr("gravity", 3.0)
    exported.set_attr("noise", [0.1, 0.2])

    assert ours.get_attr("gravity") == [3.0, 3.0]
    assert len(ours.call("get_wrapper_attr", "gravity")) == 2
    assert exported.get_attr("noise") == (0.1, 0.2)
    assert len(exported.call("state_dict")) == 2


def test_a_gymnasium_vector_continues_from_a_saved_state() -> None:
    ours = from_gymnasium_vector(cart_poles(AutoresetMode.SAME_STEP))
    ours.reset(seed=0)
    state = ours.state_dict()

    first = [ours.step(np.zeros(3, np.int64)) for _ in range(30)]
    ours.load_state_dict(state)
    second = [ours.step(np.zeros(3, np.int64)) for _ in range(30)]

    assert first == second


def test_a_state_of_something_else_is_refused() -> None:
    ours = from_gymnasium_vector(cart_poles(AutoresetMode.SAME_STEP))

    with pytest.raises(StateError, match="state must be of a SyncVectorEnv"):
        ours.load_state_dict({"gymnasium_env": 3})


def test_envs_in_other_processes_cannot_be_saved() -> None:
    ours = from_gymnasium_vector(AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")]))

    with pytest.raises(StateError, match="other processes"):
        ours.state_dict()
    ours.close()
    assert ours.closed


def test_a_vector_is_made_by_its_name() -> None:
    ours = from_gymnasium_vector("CartPole-v1", num_envs=2)

    assert ours.num_envs == 2
    assert ours.reset(seed=0).observations.shape == (2, 4)


def test_the_mode_of_a_vector_must_be_known() -> None:
    silent = cart_poles(AutoresetMode.NEXT_STEP)
    del silent.metadata["autoreset_mode"]

    with pytest.raises(ValueError, match="autoreset_mode"):
        from_gymnasium_vector(silent)


def test_statistics_travel_as_objects() -> None:
    vector = SyncVecEnv([lambda: RecordEpisodeStatistics(TimeLimit(RandomWalk(), 3))] * 2)
    exported = gymnasium_vector(vector)
    exported.reset(seed=0)

    infos = [exported.step(np.zeros((2, 2), np.float32))[4] for _ in range(3)]

    assert [stats.episode_length for stats in infos[-1]["final_info"]["episode"]] == [3, 3]
