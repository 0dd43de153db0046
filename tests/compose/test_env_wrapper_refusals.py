"""Refusals of a composed env, and its state after a part fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    EnvWrapper,
    ExhaustedError,
    RewardError,
    Simulator,
    SpaceValidationError,
)
from sekai.error import ResetRequired
from tests.compose.walks import Place, Push, Rightness, Seen, Walk, walk_env


def test_an_exhausted_env_keeps_its_last_status_and_refuses_everything() -> None:
    env = walk_env([1.0])
    env.reset()
    env.step(2)
    status = env.status
    env.reset()

    assert env.status is status
    for call in (env.reset, lambda: env.step(1)):
        with pytest.raises(ExhaustedError, match="the seeds are used up") as raised:
            call()
        assert isinstance(raised.value, RuntimeError)
    assert env.status is status


@pytest.mark.parametrize("place", ["simulator_fn", "get_state", "interpret"])
def test_only_the_seeds_can_end_the_episodes(place: str) -> None:
    class Stopping(Walk):
        def get_state(self) -> Place:
            if place == "get_state" and self.position == 1.0:
                raise StopIteration
            return super().get_state()

    class StoppingSeen(Seen):
        def interpret(self, simulator_state: Place) -> Any:
            if place == "interpret" and simulator_state.position == 1.0:
                raise StopIteration
            return super().interpret(simulator_state)

    def simulator_fn(seed: float) -> Walk:
        if place == "simulator_fn" and seed == 1.0:
            raise StopIteration
        return Stopping(seed)

    env = EnvWrapper(simulator_fn, StoppingSeen(), Push(), [1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"the episode of the seed 1\.0 was started") as raised:
        env.reset()
    assert isinstance(raised.value.__cause__, StopIteration)
    with pytest.raises(ResetRequired, match="the last reset failed"):
        env.step(1)

    assert not env.exhausted
    assert env.reset().observation["position"] == 2.0
    env.step(1)


def test_an_iteration_that_stops_inside_a_step_is_an_error() -> None:
    class Stopping(Walk):
        def step(self, action: float) -> None:
            raise StopIteration

    env = EnvWrapper(Stopping, Seen(), Push(), [1.0, 2.0])
    env.reset()

    with pytest.raises(RuntimeError, match="only the iterator of seeds may raise it") as raised:
        env.step(1)

    assert isinstance(raised.value.__cause__, StopIteration)
    assert not env.exhausted


def test_an_error_of_the_seeds_is_raised_as_it_is() -> None:
    def seeds() -> Iterator[float]:
        yield 1.0
        raise OSError("the disk is gone")

    env = walk_env(seeds())
    env.reset()

    with pytest.raises(OSError, match="the disk is gone"):
        env.reset()


@pytest.mark.parametrize("action", [3, -1, 1.5, "left", None, np.array([1, 2])])
def test_a_refused_action_changes_nothing(action: Any) -> None:
    env = walk_env()
    env.reset()
    env.step(2)
    assert env.status is not None

    with pytest.raises(SpaceValidationError, match="the action for Push does not fit"):
        env.step(action)

    assert env.status.cur_step == 1
    assert env.status.action_history == [2]
    assert env.step(2).observation["position"] == 2.0


def test_an_action_that_the_simulator_refuses_changes_nothing() -> None:
    class Walled(Walk):
        def step(self, action: float) -> None:
            if self.position + action > 1:
                raise ValueError("there is a wall")
            super().step(action)

    env = EnvWrapper(Walled, Seen(), Push(), [1.0])
    env.reset()

    with pytest.raises(ValueError, match="there is a wall"):
        env.step(2)

    assert env.status is not None
    assert (env.status.cur_step, env.status.action_history) == (0, [])
    assert env.step(0).observation["position"] == 0.0


def test_a_step_that_fails_halfway_ends_the_episode() -> None:
    class Wild(Rightness):
        def reward(self, simulator_state: Place) -> float:
            return float("nan")

    env = walk_env(reward=Wild())
    env.reset()
    with pytest.raises(RewardError, match="reward 'Wild' must be finite, got nan"):
        env.step(2)

    with pytest.raises(ResetRequired, match="failed after the simulator had moved"):
        env.step(2)
    assert env.reset().observation["position"] == 5.0


def test_steps_out_of_turn_are_refused() -> None:
    env = walk_env(length=1)
    with pytest.raises(ResetRequired, match="before reset"):
        env.step(1)
    env.reset()
    env.step(1)

    with pytest.raises(ResetRequired, match="the episode is over"):
        env.step(1)


def test_what_is_no_simulator_is_refused() -> None:
    env: Any = EnvWrapper(lambda seed: seed, Seen(), Push(), [1.0])

    with pytest.raises(TypeError, match=r"result of simulator_fn must be a .*Simulator, got 1\.0"):
        env.reset()
    with pytest.raises(TypeError, match="abstract"):
        Simulator(0)  # type: ignore[abstract]


def test_a_bad_framework_seed_takes_no_seed_away() -> None:
    env = walk_env([1.0, 2.0])

    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        env.reset(seed=-1)

    assert env.reset().observation["position"] == 1.0
