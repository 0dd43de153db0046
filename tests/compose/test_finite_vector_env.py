"""Observations, infos and refusals of finite vector envs."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    DataQueue,
    EnvWrapper,
    ExhaustedError,
    FiniteDummyVectorEnv,
    FiniteShmemVectorEnv,
    FiniteSubprocVectorEnv,
    FiniteVectorEnv,
    LogWriter,
    UnknownEnvTypeError,
    generate_nan_observation,
    vectorize_env,
)
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult, equal_values
from sekai.error import ClosedError, InvalidActionError, ResetRequired, WorkerError
from sekai.spaces import Discrete
from sekai.vector import SyncVecEnv
from tests.compose.countdowns import (
    ENV_TYPES,
    Countdown,
    Memory,
    Plain,
    Progress,
    Shown,
    collect,
    countdown_env,
    countdowns,
)
from tests.vector.worlds import SPACES, Scripted


@pytest.fixture(params=ENV_TYPES)
def env_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ones(count: int) -> Any:
    return np.ones(count, np.int64)


def test_dead_workers_show_what_was_seen_first(env_type: str) -> None:
    memory = Memory()
    with DataQueue([(5, 1), (7, 3)], shuffle=False) as queue:
        # Workers are reset one by one, so that it is known who finds nothing.
        env = countdowns(queue, env_type, 3, memory)
        with env.collector_guard():
            first = [env.reset(worker) for worker in range(3)]
            assert env.alive == {0, 1}
            assert [one.observations["number"][0, 0] for one in first] == [5.0, 7.0, 5.0]
            assert [one.infos[0]["exhausted"] for one in first] == [False, False, True]

            reported = env.step(ones(3), [2, 1, 0])
            assert reported.observations["number"][:, 0].tolist() == [5.0, 7.0, 5.0]
            assert reported.observations["left"].tolist() == [1, 2, 0]
            assert reported.rewards.tolist() == [7.0, 7.0, 5.0]
            assert reported.dones.tolist() == [False, False, True]
            assert equal_values(reported.infos[0], reported.infos[1])

            again = env.reset([2, 0])
            assert again.observations["number"][:, 0].tolist() == [5.0, 5.0]
            assert env.alive == {1}
            dead = env.step(ones(2), [0, 2])
            assert dead.rewards.tolist() == [7.0, 7.0]
            assert not dead.dones.any()

            assert env.step(ones(3)).observations["left"].tolist() == [1, 1, 1]
            assert env.step(ones(1), ids=[1]).dones.tolist() == [True]
            with pytest.raises(StopIteration, match="used up"):
                env.reset([1])

    assert memory.begun == [(0, 5), (1, 7)]
    assert [(worker, number) for worker, number, _, _ in memory.steps] == [
        (1, 7), (0, 5), (1, 7), (1, 7),
    ]  # fmt: skip


def test_who_is_told_that_the_seeds_are_used_up_is_told_once(env_type: str) -> None:
    # Outside of a guard, which would keep a second StopIteration inside.
    with DataQueue([(5, 1)]) as queue, countdowns(queue, env_type, 2) as env:
        with pytest.warns(RuntimeWarning):
            env.reset()
        env.step(ones(2))
        with pytest.warns(RuntimeWarning), pytest.raises(StopIteration, match="used up"):
            env.reset()

        for use in (env.reset, partial(env.step, ones(2)), env.collector_guard().__enter__):
            with pytest.raises(ExhaustedError, match="all seeds are used up"):
                use()


def test_the_living_get_their_own_actions(env_type: str) -> None:
    with DataQueue([(5, 9)]) as queue:
        env = countdowns(queue, env_type, 2, harm="raise")
        with env.collector_guard():
            env.reset(1)
            env.reset(0)
            # The action 2 would do harm to whoever is alive.
            for actions, ids in (([2, 1], None), ([1, 2], [1, 0]), ([2], [0])):
                assert not env.step(actions, ids).dones.any()
            with pytest.raises(WorkerError, match="env 1"):
                env.step([1, 2])


def test_what_was_seen_first_is_not_the_callers_to_change() -> None:
    with DataQueue([(5, 9)]) as queue:
        env = countdowns(queue, "dummy", 2)
        with env.collector_guard():
            env.reset([0]).observations["number"][:] = 99.0
            assert env.reset([1]).observations["number"][0, 0] == 5.0
            for _ in range(2):
                shown = env.step(ones(2)).observations["number"]
                assert shown[1, 0] == 5.0
                shown[:] = 99.0
                assert env.reset([1]).observations["number"][0, 0] == 5.0


class Script(Env[Any, Any]):
    """Shows what it is told to, reset by reset, and ends after one step."""

    def __init__(self, observes: str, shows: list[tuple[Any, dict[str, Any]]]) -> None:
        self.observation_space = SPACES[observes]()
        self.action_space = Discrete(2)
        self.shows = list(shows)

    def reset(self, **options: Any) -> ResetResult[Any]:
        self._set_rng(None)
        observation, info = self.shows.pop(0)
        return ResetResult(observation, info)

    def step(self, action: Any) -> StepResult[Any]:
        return StepResult(self.observation_space.sample(), 1.0, True, False, {})


KINDS: dict[str, Any] = {
    "dummy": FiniteDummyVectorEnv,
    "subproc": partial(FiniteSubprocVectorEnv, start_method="fork"),
    "shmem": partial(FiniteShmemVectorEnv, start_method="fork"),
}


@pytest.mark.parametrize("space", SPACES)
def test_an_observation_that_stands_for_none_ends_a_worker(env_type: str, space: str) -> None:
    nothing = generate_nan_observation(SPACES[space]())
    something = SPACES[space]().sample()
    env = KINDS[env_type](
        [
            partial(Script, space, [(nothing, {})]),
            partial(Script, space, [(something, {}), (nothing, {})]),
        ]
    )
    with env.collector_guard():
        first = env.reset()
        assert env.alive == {1}
        rows = SyncVecEnv([partial(Script, space, [])])._observations.rows(first.observations)
        assert equal_values(rows[0], rows[1])
        env.step([0, 0])
        env.reset([1])
    assert env.alive == frozenset()


def test_what_an_env_says_counts_more_than_what_it_shows(env_type: str) -> None:
    white = np.full((3, 2, 2), 255, np.uint8)
    black = np.zeros((3, 2, 2), np.uint8)
    env = KINDS[env_type](
        [
            partial(Script, "image", [(white, {"exhausted": False}), (white, {"exhausted": True})]),
            partial(Script, "image", [(black, {"exhausted": True})]),
        ]
    )
    with env.collector_guard():
        first = env.reset()
        assert env.alive == {0}
        assert np.array_equal(first.observations, np.stack([white, white]))
        env.reset(0)
    assert env.alive == frozenset()


def test_the_form_of_results_is_that_of_other_vector_envs(env_type: str) -> None:
    with DataQueue([(1, 5), (2, 5)], shuffle=False) as queue:
        env = countdowns(queue, env_type, 2)
        with env.collector_guard():
            first, reported = env.reset(), env.step(ones(2))
            turned = env.step(ones(2), [1, 0])

    # Who of the processes takes which seed is left to them.
    assert turned.rewards.tolist() == reported.rewards.tolist()[::-1]
    assert (len(env), env.num_envs) == (2, 2)
    assert env.observation_space == Shown().observation_space
    assert env.action_space == Discrete(3)
    assert first.observations["left"].dtype == reported.observations["left"].dtype == np.int64
    assert sorted(reported.rewards.tolist()) == [1.0, 2.0]
    assert reported.terminated.dtype == reported.truncated.dtype == np.dtype(np.bool_)
    assert reported.infos[1]["log"]["reward"][1] == reported.rewards[1]


def test_finished_workers_wait_for_their_reset(env_type: str) -> None:
    with DataQueue([(1, 1), (2, 5), (3, 1)], shuffle=False) as queue:
        env = countdowns(queue, env_type, 1)
        with env.collector_guard():
            env.reset()
            env.step([1])
            with pytest.raises(ResetRequired, match="reset"):
                env.step([1])
            assert env.reset().observations["number"][0, 0] == 2.0
            assert not env.step([1]).dones[0]


def test_calls_that_make_no_sense_are_refused_and_move_nothing() -> None:
    with DataQueue([(1, 5), (2, 5)], shuffle=False) as queue:
        env = countdowns(queue, "dummy", 3)
        with env.collector_guard():
            with pytest.raises(ResetRequired):
                env.step(ones(3))
            env.reset()
            for actions, id, error in (
                (ones(2), None, InvalidActionError),
                (ones(2), [0], InvalidActionError),
                (ones(1), [9], ValueError),
                (ones(2), [0, 0], ValueError),
            ):
                with pytest.raises(error):
                    env.step(actions, id)
            with pytest.raises(ValueError, match="pass either id or ids"):
                env.step(ones(1), [0], ids=[0])
            with pytest.raises(ValueError, match="already in a collector_guard"):
                env.collector_guard().__enter__()

            assert env.step(ones(3)).observations["left"].tolist() == [4, 4, 5]


def test_a_vector_that_resets_by_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset must be 'disabled', got 'same_step'"):
        FiniteVectorEnv(SyncVecEnv([Scripted]))


def test_seeds_and_options_reach_the_living() -> None:
    class Told(Scripted):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            first = super().reset(seed=seed)
            return ResetResult(
                first.observation, {"exhausted": options == {"end": True}, "s": seed}
            )

    env = FiniteDummyVectorEnv([Told] * 3)
    with env.collector_guard():
        env.reset(options=[None, {"end": True}, None])
        again = env.reset([2, 1], seed=[8, 9], options=[{}, {}])

    assert env.alive == {0, 2}
    assert again.infos[0]["s"] == 8
    assert "s" not in again.infos[1]


class TwoArguments(LogWriter):
    """A writer that does not ask what was logged in a reset."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []

    def on_env_reset(self, env_id: int, obs: Any) -> None:  # type: ignore[override]
        super().on_env_reset(env_id, obs)
        self.begun.append(env_id)


def test_any_number_of_writers_may_listen(env_type: str) -> None:
    writers: list[Any] = [Memory(), TwoArguments()]
    with DataQueue([(number, 2) for number in range(5)]) as queue:
        collect(countdowns(queue, env_type, 2, writers))
        collect_nothing = countdowns(queue, "dummy", 1, [])
        collect(collect_nothing)

    assert [worker for worker, _ in writers[0].begun] == writers[1].begun
    assert writers[0].episode_count == writers[1].episode_count == 5


def test_what_cannot_listen_is_refused() -> None:
    with pytest.raises(TypeError, match="has no on_env_all_ready, on_env_reset"):
        countdowns([], "dummy", 1, logger=print)


def test_the_three_types_are_three_classes(env_type: str) -> None:
    with DataQueue([(0, 1)]) as queue, countdowns(queue, env_type, 1) as env:
        kinds = {
            "dummy": FiniteDummyVectorEnv,
            "subproc": FiniteSubprocVectorEnv,
            "shmem": FiniteShmemVectorEnv,
        }
        assert type(env) is kinds[env_type]
        assert isinstance(env, FiniteVectorEnv)


@pytest.mark.parametrize("kind", [ValueError, KeyError, UnknownEnvTypeError])
def test_an_unknown_type_is_refused_by_naming_the_known(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="one of 'dummy', 'subproc', 'shmem', got 'ray'") as raised:
        vectorize_env(lambda: countdown_env([]), "ray")
    assert str(raised.value).startswith("env_type")


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (4, 3), (64, 48)])
def test_three_quarters_of_the_cores_work(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))

    with vectorize_env(lambda: countdown_env([(0, 1)]), "dummy") as env:
        assert len(env) == workers


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, True])
def test_less_than_one_worker_is_refused(concurrency: Any) -> None:
    with pytest.raises(ValueError, match="at least 1, got"):
        vectorize_env(lambda: countdown_env([]), "dummy", concurrency)


def test_workers_of_one_process_that_share_components_are_warned_of() -> None:
    shown, pays = Shown(), Progress()

    def sharing() -> Any:
        return EnvWrapper(Countdown, shown, Plain(), [(0, 1)], pays)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        vectorize_env(sharing, "dummy", 2).close()
        vectorize_env(sharing, "dummy", 1).close()
        vectorize_env(lambda: countdown_env([(0, 1)]), "dummy", 2).close()

    words = [str(one.message) for one in heard if one.category is UserWarning]
    assert len(words) == 2
    assert "state_interpreter, a Shown" in words[0]
    assert "reward_fn, a Progress" in words[1]


def test_a_factory_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="env_factory must be a function"):
        vectorize_env(countdown_env([]), "dummy", 1)


def test_a_closed_vector_says_so() -> None:
    env = countdowns([(0, 1)], "dummy", 1)
    env.close()
    env.close()

    assert env.closed
    with pytest.raises(ClosedError, match="make a new one"):
        env.step(ones(1))
