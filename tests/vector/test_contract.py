"""Contract of all vector envs, in one process or many."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult, equal_values
from sekai.core.wrapper import Wrapper
from sekai.error import (
    ClosedError,
    InvalidActionError,
    ResetRequired,
    SpaceError,
    WorkerError,
)
from sekai.spaces import Box, Discrete
from sekai.vector import SyncVecEnv, VecEnv, env_seed
from sekai.wrappers import TimeLimit
from tests.vector.worlds import ALL_BACKENDS, Drifter, Scripted, build
from tests.worlds import Market, RandomWalk


@pytest.fixture(params=ALL_BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def vec(backend: str) -> Iterator[VecEnv]:
    with build(backend, [RandomWalk] * 4) as vec:
        yield vec


def zeros(vec: VecEnv) -> Any:
    return np.zeros((vec.num_envs, 2), np.float32)


def test_results_are_batches_with_a_row_for_each_env(vec: VecEnv) -> None:
    first = vec.reset(seed=0)
    result = vec.step(np.stack([vec.action_space.sample() for _ in range(4)]))

    assert isinstance(first, VecResetResult)
    assert isinstance(result, VecStepResult)
    assert first.observations.shape == result.observations.shape == (4, 2)
    assert first.observations.dtype == result.observations.dtype == np.float32
    assert (result.rewards.shape, result.rewards.dtype) == ((4,), np.dtype(np.float64))
    for flags in (result.terminated, result.truncated, result.dones):
        assert (flags.shape, flags.dtype) == ((4,), np.dtype(np.bool_))
    assert len(first.infos) == len(result.infos) == 4
    assert first.infos[2] == {"begun": True}


def test_the_spaces_are_those_of_one_env_and_the_batched_ones_those_of_all(vec: VecEnv) -> None:
    batch = vec.reset(seed=0)

    assert vec.observation_space == vec.single_observation_space == RandomWalk().observation_space
    assert vec.action_space == vec.single_action_space == RandomWalk().action_space
    assert batch.observations in vec.batched_observation_space
    assert vec.batched_action_space.sample().shape == (4, 2)
    assert len(vec) == vec.num_envs == 4


def test_a_seed_gives_each_env_a_stream_of_its_own(vec: VecEnv) -> None:
    observations = vec.reset(seed=3).observations

    alone = [RandomWalk().reset(seed=env_seed(3, index)).observation for index in range(4)]
    assert np.array_equal(observations, np.stack(alone))
    assert len(np.unique(observations[:, 0])) == 4


def test_the_first_envs_do_not_depend_on_how_many_follow(backend: str) -> None:
    with build(backend, [RandomWalk] * 2) as few, build(backend, [RandomWalk] * 7) as many:
        assert np.array_equal(few.reset(seed=5).observations, many.reset(seed=5).observations[:2])
        few_result, many_result = few.step(zeros(few)), many.step(zeros(many))

    assert np.array_equal(few_result.observations, many_result.observations[:2])
    assert np.array_equal(few_result.rewards, many_result.rewards[:2])


def test_each_env_may_have_a_seed_of_its_own(vec: VecEnv) -> None:
    observations = vec.reset(seed=[1, None, 1, 2]).observations

    alone = RandomWalk().reset(seed=1).observation
    assert np.array_equal(observations[0], alone)
    assert np.array_equal(observations[2], alone)
    assert not np.array_equal(observations[1], alone)


def test_options_reach_all_envs_or_each_its_own(backend: str) -> None:
    with build(backend, [Drifter] * 3) as vec:
        vec.reset(seed=0, options={"label": "all"})
        assert vec.get_attr("label") == ["all"] * 3

        vec.reset(seed=0, options=[{"label": "one"}, None, {"label": "three"}])
        assert vec.get_attr("label") == ["one", "none", "three"]


@pytest.mark.parametrize("ids", [[2, 0], np.array([2, 0]), (2, 0)])
def test_some_envs_may_be_reset_and_the_others_go_on(vec: VecEnv, ids: Any) -> None:
    vec.reset(seed=0)
    vec.step(zeros(vec))
    rows = vec.reset(seed=[10, 11], ids=ids)

    assert rows.observations.shape == (2, 2)
    assert np.array_equal(rows.observations[0], RandomWalk().reset(seed=10).observation)
    assert np.array_equal(rows.observations[1], RandomWalk().reset(seed=11).observation)
    assert rows.infos == [{"begun": True}] * 2

    undisturbed = RandomWalk()
    undisturbed.reset(seed=env_seed(0, 1))
    undisturbed.step(np.zeros(2, np.float32))
    expected = undisturbed.step(np.zeros(2, np.float32)).observation
    assert np.array_equal(vec.step(zeros(vec)).observations[1], expected)


def test_a_vector_seed_means_the_same_to_an_env_that_is_reset_alone(vec: VecEnv) -> None:
    together = vec.reset(seed=7).observations

    assert np.array_equal(vec.reset(seed=7, ids=[3]).observations[0], together[3])


def test_a_mask_names_envs_too(vec: VecEnv) -> None:
    vec.reset(seed=0)

    assert vec.reset(ids=np.array([True, False, False, True])).observations.shape == (2, 2)
    assert vec.reset(ids=[]).observations.shape == (0, 2)


@pytest.mark.parametrize(
    ("ids", "words"), [([4], "got"), ([-1], "got"), ([1, 1], "unique"), ([True], "shape \\(4,\\)")]
)
def test_ids_that_are_not_there_are_refused(vec: VecEnv, ids: Any, words: str) -> None:
    vec.reset(seed=0)

    with pytest.raises(ValueError, match=words):
        vec.reset(ids=ids)


@pytest.mark.parametrize(
    "actions",
    [
        np.zeros((3, 2), np.float32),
        np.zeros((5, 2), np.float32),
        np.zeros((4, 3), np.float32),
        np.zeros(4, np.float32),
        [np.zeros(2, np.float32)] * 3,
        [np.zeros(2), np.zeros(3), np.zeros(2), np.zeros(2)],
        None,
        "four",
    ],
)
def test_a_wrong_number_of_actions_is_refused_and_nothing_moves(vec: VecEnv, actions: Any) -> None:
    vec.reset(seed=0)
    before = vec.state_dict()

    with pytest.raises(InvalidActionError, match="expected 4 actions"):
        vec.step(actions)

    assert equal_values(vec.state_dict(), before)
    assert vec.step(zeros(vec)).rewards.shape == (4,)


@pytest.mark.parametrize(("action", "kind"), [(0.5, "float64"), (True, "bool")])
def test_actions_of_another_kind_are_refused(backend: str, action: Any, kind: str) -> None:
    with build(backend, [Scripted] * 2) as vec:
        vec.reset(seed=0)

        with pytest.raises(InvalidActionError, match=f"dtype int64, got {kind}"):
            vec.step(np.array([action, action]))


@pytest.mark.parametrize("seed", [[1, 2, 3], [1] * 5, "4444", -1, True, 1.5, [1, 2, 3, -4]])
def test_seeds_that_cannot_be_used_are_refused(vec: VecEnv, seed: Any) -> None:
    with pytest.raises(ValueError, match="seed"):
        vec.reset(seed=seed)


def test_a_wrong_number_of_options_is_refused(vec: VecEnv) -> None:
    with pytest.raises(ValueError, match="expected 4 options, one per env, got 2"):
        vec.reset(options=[None, None])


def test_stepping_comes_after_reset_and_before_close(vec: VecEnv) -> None:
    with pytest.raises(ResetRequired, match="reset"):
        vec.step(zeros(vec))

    vec.reset(seed=0, ids=[0, 1, 2])
    with pytest.raises(ResetRequired, match=r"\[3\]"):
        vec.step(zeros(vec))

    vec.reset(seed=0)
    vec.close()
    vec.close()
    assert vec.closed
    for call in (
        lambda: vec.step(zeros(vec)),
        lambda: vec.reset(),
        lambda: vec.get_attr("noise"),
        lambda: vec.set_attr("noise", 1.0),
        lambda: vec.call("reset"),
        vec.state_dict,
    ):
        with pytest.raises(ClosedError):
            call()


def test_results_do_not_change_when_the_envs_go_on(backend: str) -> None:
    with build(backend, [Scripted] * 3) as vec:
        results: list[Any] = [vec.reset(seed=0)]
        results += [vec.step(np.zeros(3, np.int64)) for _ in range(7)]
        copies = [result.observations.copy() for result in results]
        infos = [list(result.infos) for result in results]
        for _ in range(5):
            vec.step(np.zeros(3, np.int64))

    for result, copy, info in zip(results, copies, infos, strict=True):
        assert np.array_equal(result.observations, copy)
        assert result.infos == info


def test_without_copies_the_result_before_the_last_stays_whole(backend: str) -> None:
    with build(backend, [Scripted] * 3, copy=False) as vec:
        vec.reset(seed=0)
        first = vec.step(np.zeros(3, np.int64))
        seen = first.observations.copy()
        second = vec.step(np.zeros(3, np.int64))

        assert np.array_equal(first.observations, seen)
        assert not np.shares_memory(first.observations, second.observations)
        third = vec.step(np.zeros(3, np.int64))
        assert np.shares_memory(first.observations, third.observations)


def test_envs_may_keep_their_actions(backend: str) -> None:
    with build(backend, [Keeper] * 2) as vec:
        vec.reset(seed=0)
        actions = np.array([[1.0], [2.0]], np.float32)
        vec.step(actions)
        actions[:] = 9.0
        vec.step(actions)

        assert [kept[0].tolist() for kept in vec.get_attr("kept")] == [[1.0], [2.0]]


class Keeper(Env[Any, Any]):
    """Keeps every action it is given."""

    def __init__(self) -> None:
        self.observation_space = Box(-1.0, 1.0, shape=(1,))
        self.action_space = Box(-10.0, 10.0, shape=(1,))
        self.kept: list[Any] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        return ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> StepResult[Any]:
        self.kept.append(action)
        return StepResult(np.zeros(1, np.float32), 0.0, False, False, {})


class Named(Wrapper[Any, Any, Any, Any]):
    """A layer with an attribute of its own."""

    def __init__(self, env: Env[Any, Any], title: str = "layer") -> None:
        super().__init__(env)
        self.title = title


def test_attributes_are_read_set_and_called_in_each_env(backend: str) -> None:
    with build(backend, [lambda: Named(Drifter(mean_length=9))] * 3) as vec:
        assert vec.get_attr("mean_length") == [9, 9, 9]
        vec.set_attr("mean_length", 20)
        assert vec.get_attr("mean_length") == [20, 20, 20]
        vec.set_attr("mean_length", [1, 2, 3], per_env=True)
        assert vec.get_attr("mean_length") == [1, 2, 3]
        vec.set_attr("mean_length", [1, 2, 3])
        assert vec.get_attr("mean_length") == [[1, 2, 3]] * 3
        assert vec.call("told", "hush") == ["hush"] * 3
        assert vec.call("told", "hush", loud=True) == ["HUSH"] * 3

        vec.set_attr("title", "changed")
        vec.set_attr("fresh", 1)
        assert vec.get_attr("title") == ["changed"] * 3
        assert vec.get_attr("fresh") == [1] * 3
        with pytest.raises(ValueError, match="expected 3 values, one per env, got 2"):
            vec.set_attr("mean_length", [1, 2], per_env=True)
        with pytest.raises(AttributeError, match="no_such_thing"):
            vec.get_attr("no_such_thing")
        assert vec.get_attr("title") == ["changed"] * 3


def test_a_new_attribute_lands_on_the_env_and_a_known_one_on_its_layer() -> None:
    vec = SyncVecEnv([lambda: Named(Drifter())])
    vec.set_attr("title", "changed")
    vec.set_attr("fresh", 1)

    assert vars(vec.envs[0])["title"] == "changed"
    assert vars(vec.envs[0].unwrapped)["fresh"] == 1


def test_envs_may_be_built_with_different_arguments(backend: str) -> None:
    with build(backend, [partial(Scripted, length) for length in (2, 5)]) as vec:
        vec.reset(seed=0)
        dones = [vec.step([0, 0]).dones.tolist() for _ in range(5)]

    assert [row[0] for row in dones] == [False, True, False, True, False]
    assert [row[1] for row in dones] == [False, False, False, False, True]


@pytest.mark.parametrize("place", [1, 3])
def test_envs_whose_spaces_differ_are_refused_by_name(backend: str, place: int) -> None:
    factories: list[Any] = [RandomWalk] * 4
    factories[place] = Market

    with pytest.raises(SpaceError, match=rf"env [02] is Box.*env {place} Dict"):
        build(backend, factories)


def test_a_vector_needs_functions_that_build_envs(backend: str) -> None:
    with pytest.raises(ValueError, match="at least one env"):
        build(backend, [])
    with pytest.raises(TypeError, match="item 1 is <RandomWalk>"):
        build(backend, [RandomWalk, RandomWalk()])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="env 1 must return a sekai.Env"):
        build(backend, [RandomWalk, dict])


def test_two_places_in_a_vector_cannot_be_the_same_env() -> None:
    env = RandomWalk()

    with pytest.raises(ValueError, match="env 1 returned an env that is already used"):
        SyncVecEnv([lambda: env, lambda: env])


def test_a_factory_that_fails_is_named(backend: str) -> None:
    def broken() -> RandomWalk:
        raise OSError("no data")

    with pytest.raises(WorkerError, match="env 1 .*OSError: no data in its factory") as raised:
        build(backend, [RandomWalk, broken, RandomWalk])
    assert raised.value.env_index == 1


@pytest.mark.parametrize("option", ["autoreset", "on_error"])
def test_an_unknown_choice_is_refused(backend: str, option: str) -> None:
    if (backend, option) == ("pipe", "on_error"):
        pytest.skip("PipeVecEnv has no on_error option")
    with pytest.raises(ValueError, match=f"{option} must be one of"):
        build(backend, [RandomWalk], **{option: "sometimes"})


class WrongShape(RandomWalk):
    """Forgets a number in its second step."""

    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        shown = result.observation[:1] if self.noise == 0.0 else result.observation
        return StepResult(shown, result.reward, False, False, {})


def test_an_observation_that_does_not_fit_is_blamed_on_its_env(backend: str) -> None:
    with build(backend, [RandomWalk, lambda: WrongShape(0.0)]) as vec:
        vec.reset(seed=0)

        with pytest.raises(WorkerError, match="env 1 returned an observation outside its space"):
            vec.step(zeros(vec))


def test_actions_and_observations_of_every_space_come_as_a_batch_or_one_by_one(
    backend: str,
) -> None:
    with build(backend, [lambda: Drifter("nested", "nested")] * 3) as vec:
        vec.reset(seed=1)
        one_by_one = [vec.action_space.sample() for _ in range(3)]
        state = vec.state_dict()
        result = vec.step(one_by_one)
        vec.load_state_dict(state)
        y = np.stack([action["x"][0]["y"] for action in one_by_one])
        box = np.stack([action["x"][1] for action in one_by_one])
        z = np.array([action["z"] for action in one_by_one])
        batch = {"x": ({"y": y}, box), "z": z}

        assert vec.step(batch) == result
        assert result.observations["x"][0]["y"].shape == (3, 3)
        assert result.observations["z"].shape == (3,)


def test_a_vector_is_a_context_manager_and_shows_itself(backend: str) -> None:
    with build(backend, [lambda: TimeLimit(RandomWalk(), 3)] * 2) as vec:
        assert "VecEnv of 2 envs" in repr(vec)
        assert list(vec) == [vec]
        assert vec.unwrapped is vec
    assert vec.closed


def test_discrete_actions_arrive_as_the_space_would_sample_them() -> None:
    class Typed(Keeper):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = Discrete(3)

    vec = SyncVecEnv([Typed])
    vec.reset(seed=0)
    vec.step([2])

    assert type(vec.envs[0].kept[0]) is type(Discrete(3).sample())
