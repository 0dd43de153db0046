"""Layers around vector envs: one batched call, final observations included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.error import StateError
from sekai.spaces import Box
from sekai.stats.tracker import EpisodeStats
from sekai.vector import (
    NormalizeVecObservation,
    NormalizeVecReward,
    RecordVecEpisodeStatistics,
    StepBuffers,
    SyncVecEnv,
    VecActionWrapper,
    VecEnv,
    VecObservationWrapper,
    VecRewardWrapper,
    VecWrapper,
)
from sekai.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics
from tests.vector.native_batch import lottery_vector
from tests.vector.worlds import ALL_BACKENDS, Drifter, Scripted, actions_for, build
from tests.worlds import RandomWalk


class NormaliseVec(VecObservationWrapper):
    """The wrapper of the document."""

    def observation(self, obs: Any) -> Any:
        return (obs - obs.mean(axis=0)) / (obs.std(axis=0) + 1e-8)


class Doubled(VecObservationWrapper):
    """Shows twice the numbers."""

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.observation_space = Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)

    def observation(self, obs: Any) -> Any:
        return obs * 2


def test_an_observation_wrapper_is_given_batches() -> None:
    vec = NormaliseVec(SyncVecEnv([RandomWalk] * 8))
    vec.reset(seed=0)
    shown = vec.step(np.zeros((8, 2), np.float32)).observations

    assert np.allclose(shown.mean(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize("backend", ALL_BACKENDS)
def test_final_observations_are_changed_too(backend: str) -> None:
    with Doubled(build(backend, [lambda: Scripted(2)] * 2)) as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        result = vec.step([0, 0])

    assert result.observations.tolist() == [[2, 0]] * 2
    assert result.infos[1]["final_observation"].tolist() == [0, 4]
    assert result.infos[1]["final_info"] == {"step": 2.0}


def test_rewards_and_actions_are_changed_for_all_envs() -> None:
    class Halved(VecRewardWrapper):
        def reward(self, rewards: Any) -> Any:
            return rewards / 2

    class Pushed(VecActionWrapper):
        def action(self, actions: Any) -> Any:
            return actions + 1

    plain = SyncVecEnv([RandomWalk] * 3)
    vec = Pushed(Halved(SyncVecEnv([RandomWalk] * 3)))
    plain.reset(seed=0)
    vec.reset(seed=0)

    ones = plain.step(np.ones((3, 2), np.float32))
    changed = vec.step(np.zeros((3, 2), np.float32))
    assert np.array_equal(changed.observations, ones.observations)
    assert np.array_equal(changed.rewards, ones.rewards / 2)


@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        (VecObservationWrapper, "observation"),
        (VecRewardWrapper, "reward"),
        (VecActionWrapper, "action"),
    ],
)
def test_a_wrapper_without_its_method_says_so(kind: Any, hook: str) -> None:
    vec = kind(SyncVecEnv([RandomWalk]))

    vec.env.reset(seed=0)
    with pytest.raises(NotImplementedError, match=hook):
        vec.step(np.zeros((1, 2), np.float32))


def test_a_wrapper_is_transparent() -> None:
    inner = SyncVecEnv([RandomWalk] * 2)
    vec = VecWrapper(inner)

    assert (vec.num_envs, vec.autoreset, vec.closed) == (2, "same_step", False)
    assert vec.observation_space == inner.observation_space
    assert vec.batched_action_space == inner.batched_action_space
    assert vec.unwrapped is inner
    assert list(vec) == [vec, inner]
    assert repr(vec) == "<VecWrapper(<SyncVecEnv of 2 envs>)>"
    assert vec.get_attr("noise") == [0.5, 0.5]
    vec.set_attr("noise", [0.1, 0.2], per_env=True)
    assert inner.get_attr("noise") == [0.1, 0.2]
    assert len(vec.call("reset", seed=1)) == 2
    vec.close()
    assert inner.closed
    with pytest.raises(TypeError, match="expected a VecEnv, got <RandomWalk>"):
        VecWrapper(RandomWalk())  # type: ignore[arg-type]


STACKS: dict[str, Callable[[VecEnv], VecEnv]] = {
    "observation": NormalizeVecObservation,
    "reward": NormalizeVecReward,
    "statistics": RecordVecEpisodeStatistics,
    "all": lambda vec: NormalizeVecReward(NormalizeVecObservation(RecordVecEpisodeStatistics(vec))),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_layer_is_saved_with_its_vector_and_continues_bit_for_bit(name: str) -> None:
    vec = STACKS[name](SyncVecEnv([lambda: Drifter("dict", "box", 3)] * 3))
    actions = actions_for(vec, 20)
    vec.reset(seed=0)
    for action in actions[:9]:
        vec.step(action)
    state = vec.state_dict()
    expected = [without_times(vec.step(action)) for action in actions[9:]]

    other = STACKS[name](SyncVecEnv([lambda: Drifter("dict", "box", 3)] * 3))
    other.load_state_dict(state)
    assert equal_values([without_times(other.step(action)) for action in actions[9:]], expected)
    with pytest.raises(StateError):
        other.load_state_dict({"layer": {}, "env": {}})


def without_times(result: Any) -> list[Any]:
    infos = [
        {key: value for key, value in info.items() if key not in ("episode", "final_info")}
        for info in result.infos
    ]
    stats = [info.get("episode") for info in result.infos]
    reported = [one and (one.episode_return, one.episode_length, one.terminated) for one in stats]
    return [result.observations, result.rewards, result.terminated, infos, reported]


@pytest.mark.parametrize("make", [lambda: SyncVecEnv([RandomWalk] * 4), lambda: lottery_vector(4)])
def test_normalised_observations_have_mean_zero_and_variance_one(
    make: Callable[[], VecEnv],
) -> None:
    inner, vec = make(), NormalizeVecObservation(make())
    seen = [inner.reset(seed=0).observations]
    vec.reset(seed=0)
    for action in actions_for(inner, 200):
        plain, shown = inner.step(action), vec.step(action)
        ended = np.flatnonzero(plain.dones).tolist()
        seen += [plain.infos[index]["final_observation"][None] for index in ended]
        seen.append(plain.observations)

        rows = np.concatenate(seen).astype(np.float64)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        expected = (plain.observations - mean) / np.sqrt(spread**2 + 1e-8)
        assert np.allclose(shown.observations, expected, atol=1e-3)
    assert shown.observations in vec.batched_observation_space


def test_the_final_observation_is_normalised_by_the_same_moments() -> None:
    inner, vec = SyncVecEnv([Scripted] * 3), NormalizeVecObservation(SyncVecEnv([Scripted] * 3))
    inner.reset(seed=0)
    vec.reset(seed=0)
    for _ in range(2):
        inner.step([0] * 3)
        vec.step([0] * 3)
    vec.learning = False
    plain, shown = inner.step([0] * 3), vec.step([0] * 3)

    expected = vec.moments.normalise(plain.infos[0]["final_observation"], False)
    assert np.array_equal(shown.infos[0]["final_observation"], expected)
    assert not np.array_equal(expected, plain.infos[0]["final_observation"])


def test_without_learning_the_statistics_stand_still() -> None:
    vec = NormalizeVecReward(NormalizeVecObservation(SyncVecEnv([RandomWalk] * 2)))
    vec.reset(seed=0)
    vec.step(np.ones((2, 2), np.float32))
    vec.learning = False
    layer: Any = vec.env
    layer.learning = False
    before = (layer.moments.state_dict(), vec.scale.variance)
    vec.step(np.ones((2, 2), np.float32))

    assert equal_values((layer.moments.state_dict(), vec.scale.variance), before)


def test_one_env_is_normalised_as_the_single_wrappers_do() -> None:
    single = NormalizeReward(NormalizeObservation(RandomWalk()))
    vec = NormalizeVecReward(NormalizeVecObservation(SyncVecEnv([RandomWalk])))
    shown = single.reset(seed=5).observation
    assert np.allclose(vec.reset(seed=[5]).observations[0], shown)
    for action in actions_for(vec, 60):
        result, batch = single.step(action[0]), vec.step(action)
        if result.done:
            assert np.allclose(batch.infos[0]["final_observation"], result.observation, atol=1e-5)
            single.reset()
        else:
            assert np.allclose(batch.observations[0], result.observation, atol=1e-5)
        assert batch.rewards[0] == pytest.approx(result.reward)


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_statistics_equal_those_of_the_single_wrapper(mode: Any) -> None:
    inside = SyncVecEnv([lambda: RecordEpisodeStatistics(Drifter())] * 4, autoreset=mode)
    outside = RecordVecEpisodeStatistics(SyncVecEnv([Drifter] * 4, autoreset=mode))
    inside.reset(seed=0)
    outside.reset(seed=0)
    seen = 0
    for action in actions_for(inside, 60):
        one, other = inside.step(action), outside.step(action)
        for index in np.flatnonzero(one.dones).tolist():
            seen += 1
            info = one.infos[index].get("final_info", one.infos[index])
            assert same_episode(other.infos[index]["episode"], info["episode"])
            final_info = other.infos[index].get("final_info", other.infos[index])
            assert same_episode(final_info["episode"], info["episode"])
        if mode == "disabled" and one.dones.any():
            inside.reset(ids=one.dones)
            outside.reset(ids=one.dones)
    assert seen > 10
    assert len(outside.tracker.summary()) > 0


def same_episode(one: EpisodeStats, other: EpisodeStats) -> bool:
    names = ("episode_length", "terminated", "truncated")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and one.episode_return == pytest.approx(other.episode_return)


def test_a_partial_reset_begins_the_totals_of_those_envs_anew() -> None:
    vec = RecordVecEpisodeStatistics(SyncVecEnv([lambda: Scripted(4)] * 2))
    vec.reset(seed=0)
    vec.step([0, 0])
    vec.reset(ids=[1])
    results = [vec.step([0, 0]) for _ in range(4)]

    assert results[2].infos[0]["episode"].episode_return == 1 + 2 + 3 + 4
    assert results[3].infos[1]["episode"].episode_length == 4


def test_layers_work_on_the_async_path() -> None:
    async def main() -> Any:
        vec = STACKS["all"](build("async", [lambda: Scripted(2)] * 3))
        await vec.async_reset(seed=0)
        await vec.async_step([0] * 3)
        return await vec.async_step([0] * 3)

    result = asyncio.run(main())
    vec = STACKS["all"](SyncVecEnv([lambda: Scripted(2)] * 3))
    vec.reset(seed=0)
    vec.step([0] * 3)
    assert equal_values(without_times(result), without_times(vec.step([0] * 3)))


@pytest.mark.parametrize(
    "make", [lambda: SyncVecEnv([Scripted] * 2), lambda: build("proc", [Scripted] * 2)]
)
@pytest.mark.parametrize("wrap", [lambda vec: vec, Doubled])
def test_any_vector_writes_into_the_callers_arrays(
    make: Callable[[], VecEnv], wrap: Callable[[VecEnv], VecEnv]
) -> None:
    with wrap(make()) as vec, wrap(SyncVecEnv([Scripted] * 2)) as plain:
        flags = np.zeros((2, 2), np.bool_)
        out = StepBuffers(np.zeros((2, 2)), np.zeros(2), flags[0], flags[1], np.zeros((2, 2)))
        vec.reset(seed=0)
        plain.reset(seed=0)
        for _ in range(3):
            result, expected = vec.step([0, 0], out=out), plain.step([0, 0])
            assert result.observations is out.observations
            assert result == expected
        last = np.stack([info["final_observation"] for info in expected.infos])
        assert np.array_equal(out.final_observations, last)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"observations": np.zeros((3, 2))},
        {"observations": np.zeros((2, 2), np.float32)},
        {"observations": np.zeros((2, 4))[:, ::2]},
        {"observations": [[0.0, 0.0]] * 2},
        {"rewards": np.zeros(2, np.float32)},
        {"truncated": np.zeros(3, np.bool_)},
        {"final_observations": np.zeros(2)},
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_anything_moves(spoilt: dict[str, Any]) -> None:
    flags = np.zeros((2, 2), np.bool_)
    arrays = {
        "observations": np.zeros((2, 2)),
        "rewards": np.zeros(2),
        "terminated": flags[0],
        "truncated": flags[1],
    }
    for vec in (SyncVecEnv([Scripted] * 2), Doubled(SyncVecEnv([Scripted] * 2))):
        vec.reset(seed=0)
        with pytest.raises(ValueError, match=rf"out.{next(iter(spoilt))} must be"):
            vec.step([0, 0], out=StepBuffers(**{**arrays, **spoilt}))
        assert vec.step([0, 0]).rewards.tolist() == [1, 1]
