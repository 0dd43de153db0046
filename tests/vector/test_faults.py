"""Envs that raise, hang, exit, are killed or stopped: an error or a restart, never a hang."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.error import ClosedError, WorkerError
from sekai.vector import ProcVecEnv, Restart, SyncVecEnv, env_seed
from sekai.vector.vec_env import restart_seed
from tests.vector.worlds import START_METHODS, Faulty, Scripted, build

HARMS = {
    "raise": "env 1 .*raised ValueError: the market is closed in step",
    "unportable": "env 1 .*raised UnportableError: 1 and 2 in step",
    "exit": "env 1 .*process ended with exit code 17",
    "sys_exit": "env 1 .*process ended with exit code",
    "kill": "env 1 .*process was killed by SIGKILL",
    "stop": "env 1 .*no reply within step_timeout",
    "hang": "env 1 .*no reply within step_timeout",
}
FATAL = ["exit", "kill", "stop", "hang"]


@pytest.fixture(params=START_METHODS)
def start_method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options(start_method: str) -> dict[str, Any]:
    return {"start_method": start_method, "num_workers": 2, "step_timeout": 20.0}


def limited(options: dict[str, Any], harm: str) -> dict[str, Any]:
    """Only those that hang are timed, so that a slow machine fails no other test."""
    return {**options, "step_timeout": 1.0} if harm in ("stop", "hang") else options


@pytest.mark.parametrize("harm", HARMS)
def test_a_failing_env_is_named_and_the_vector_closes(harm: str, options: dict[str, Any]) -> None:
    vec = ProcVecEnv([partial(Faulty, harm)] * 2, **limited(options, harm))
    vec.reset(seed=6)
    vec.step([0, 0])

    begun = time.monotonic()
    with pytest.raises(WorkerError, match=HARMS[harm]) as raised:
        vec.step([0, 1])

    assert time.monotonic() - begun < 8.0
    assert raised.value.env_index == 1
    assert raised.value.seed == env_seed(6, 1)
    assert raised.value.last_action == 1
    assert vec.closed
    with pytest.raises(ClosedError):
        vec.step([0, 0])
    vec.close()


def test_the_error_of_an_env_carries_its_remote_traceback(options: dict[str, Any]) -> None:
    vec = ProcVecEnv([Faulty] * 2, **options)
    vec.reset(seed=6)

    with pytest.raises(WorkerError) as raised:
        vec.step([0, 1])

    assert "do_harm" in (raised.value.remote_traceback or "")
    assert isinstance(raised.value.__cause__, ValueError)
    assert "do_harm" in str(raised.value.__cause__.__cause__)


@pytest.mark.parametrize("harm", ["raise", *FATAL])
def test_a_failing_env_comes_back_and_no_other_is_disturbed(
    harm: str, options: dict[str, Any]
) -> None:
    undisturbed = SyncVecEnv([partial(Faulty, harm)] * 2)
    with ProcVecEnv(
        [partial(Faulty, harm)] * 2, on_error="restart", **limited(options, harm)
    ) as vec:
        vec.reset(seed=6)
        undisturbed.reset(seed=6)
        vec.step([0, 0])
        undisturbed.step([0, 0])
        result = vec.step([0, 1])
        expected = undisturbed.step([0, 0])

        assert_others_equal(result, expected, harmed=1)
        assert result.truncated.tolist() == [False, True]
        assert not result.terminated.any()
        assert result.rewards[1] == 0.0
        assert result.infos[1]["final_observation"].tolist() == [0.0, 1.0]
        restart = result.infos[1]["restart"]
        assert isinstance(restart, Restart)
        assert restart.restarts == 1
        assert restart.seed == restart_seed(env_seed(6, 1), 1)
        draw = np.random.default_rng(restart.seed).random()
        assert result.infos[1]["draw"] == draw

        after, expected = vec.step([0, 0]), undisturbed.step([0, 0])
        assert_others_equal(after, expected, harmed=1)
        assert after.observations[1].tolist() == [0.0, 1.0]
        assert "restart" not in after.infos[1]


def assert_others_equal(result: Any, expected: Any, harmed: int) -> None:
    others = [index for index in range(len(expected.rewards)) if index != harmed]
    for name in ("observations", "rewards", "terminated", "truncated"):
        assert np.array_equal(getattr(result, name)[others], getattr(expected, name)[others])
    for index in others:
        assert equal_values(result.infos[index], expected.infos[index])


def test_an_env_may_fail_again_and_again(options: dict[str, Any]) -> None:
    with ProcVecEnv([partial(Faulty, "exit")] * 2, on_error="restart", **options) as vec:
        vec.reset(seed=0)
        seen = [vec.step([1, 0]).infos[0]["restart"] for _ in range(3)]

    assert [restart.restarts for restart in seen] == [1, 2, 3]
    assert len({restart.seed for restart in seen}) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("on_error", ["raise", "restart"])
def test_a_worker_that_is_killed_or_stopped_while_idle_is_found_at_the_next_step(
    number: signal.Signals, on_error: Any, start_method: str
) -> None:
    vec = ProcVecEnv(
        [Scripted] * 4,
        num_workers=2,
        start_method=start_method,
        step_timeout=1.0 if number == signal.SIGSTOP else 20.0,
        on_error=on_error,
    )
    with vec:
        vec.reset(seed=0)
        os.kill(vec.worker_ids[1], number)

        if on_error == "raise":
            with pytest.raises(WorkerError, match=r"env [23] .*(SIGKILL|no reply)"):
                vec.step([0] * 4)
        else:
            result = vec.step([0] * 4)
            # Envs that share a process die together; those of the other worker go on.
            assert result.truncated.tolist() == [False, False, True, True]
            assert result.observations[:, 1].tolist() == [1, 1, 0, 0]
            assert vec.step([0] * 4).observations[:, 1].tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
@pytest.mark.parametrize(
    ("backend", "harm"),
    [("sync", "raise"), ("async", "raise"), ("proc", "raise"), ("proc", "kill")],
)
def test_without_same_step_a_failed_episode_ends_at_its_last_observation(
    mode: Any, backend: str, harm: str
) -> None:
    factories = [partial(Faulty, harm)] * 2
    with build(backend, factories, autoreset=mode, on_error="restart") as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        result = vec.step([0, 1])
        assert result.dones.tolist() == [False, True]
        assert result.observations.tolist() == [[0, 2], [0, 1]]
        assert result.infos[1]["restart"].restarts == 1

        if mode == "disabled":
            vec.reset(ids=[1])
        else:
            assert vec.step([0, 0]).rewards.tolist() == [3, 0]
        assert vec.step([0, 0]).observations[1].tolist() == [1, 1]


@pytest.mark.parametrize("backend", ["sync", "async", "proc"])
@pytest.mark.parametrize("on_error", ["raise", "restart"])
def test_an_env_that_fails_in_reset_is_named_or_comes_back(backend: str, on_error: Any) -> None:
    factories: list[Any] = [Scripted, partial(Faulty, in_reset=True)]
    with build(backend, factories, on_error=on_error) as vec:
        vec.reset(seed=0)
        options = [None, {"harm": True}]
        if on_error == "raise":
            with pytest.raises(WorkerError, match="env 1 .*in reset"):
                vec.reset(seed=0, options=options)
        else:
            with pytest.raises(WorkerError, match="env 1 .*the reset after a restart"):
                vec.reset(seed=0, options=options)
        assert vec.closed


class BreaksWhenItBeginsAgain(Scripted):
    """Cannot begin a second episode."""

    def reset(self, **arguments: Any) -> Any:
        if self._shown[0] >= 0:
            raise ValueError("only once")
        return super().reset(**arguments)


@pytest.mark.parametrize("backend", ["sync", "async", "proc"])
def test_the_end_of_an_episode_is_kept_when_the_next_one_fails_to_begin(backend: str) -> None:
    factories = [partial(BreaksWhenItBeginsAgain, 2)] * 2
    with build(backend, factories, on_error="restart") as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        result = vec.step([0, 0])

    assert result.terminated.tolist() == [True, True]
    assert result.rewards.tolist() == [2, 2]
    assert result.infos[0]["final_observation"].tolist() == [0, 2]
    assert "only once" in result.infos[0]["restart"].reason


@pytest.mark.parametrize("backend", ["sync", "async", "proc"])
def test_restarts_are_part_of_the_state(backend: str) -> None:
    factories = [partial(Faulty, "raise")] * 2
    with build(backend, factories, on_error="restart") as vec:
        vec.reset(seed=0)
        vec.step([0, 1])
        state = vec.state_dict()
        expected = vec.step([0, 1])
        vec.load_state_dict(state)
        again = vec.step([0, 1])

    assert again.infos[1]["restart"] == expected.infos[1]["restart"]
    assert again.infos[1]["restart"].restarts == 2
    assert np.array_equal(again.observations, expected.observations)


def test_a_worker_that_dies_before_a_partial_reset_tells_its_other_envs() -> None:
    with ProcVecEnv([Scripted] * 2, num_workers=1, start_method="fork", on_error="restart") as vec:
        vec.reset(seed=0)
        vec.step([0, 0])
        os.kill(vec.worker_ids[0], signal.SIGKILL)
        rows = vec.reset(ids=[0])
        assert rows.infos[0]["restart"].restarts == 1

        result = vec.step([0, 0])
        assert result.truncated.tolist() == [False, True]
        assert "restart" not in result.infos[0]
        assert result.infos[1]["restart"].restarts == 1


def test_a_worker_that_cannot_come_back_is_an_error() -> None:
    class Fragile(Faulty):
        def __init__(self, builds: list[int]) -> None:
            super().__init__("kill")
            if os.path.exists(f"/proc/{builds[0]}") is False:
                raise OSError("the data are gone")

    with ProcVecEnv(
        [partial(Fragile, [os.getpid()])], start_method="fork", on_error="restart"
    ) as vec:
        vec.reset(seed=0)
        assert vec.step([1]).truncated.tolist() == [True]
        vec._assignments[0].factories.value[0] = partial(Fragile, [2**30])
        with pytest.raises(WorkerError, match="the data are gone"):
            vec.step([1])
        assert vec.closed


class ClosesBadly(Scripted):
    """Raises when it is closed."""

    def close(self) -> None:
        raise OSError("the socket is gone")


@pytest.mark.parametrize("backend", ["sync", "async", "proc"])
def test_an_env_that_cannot_close_is_named_once_all_are_closed(backend: str) -> None:
    vec = build(backend, [ClosesBadly, Scripted])

    with pytest.raises(WorkerError, match="env 0 .*OSError: the socket is gone in close"):
        vec.close()
    assert vec.closed
    vec.close()
