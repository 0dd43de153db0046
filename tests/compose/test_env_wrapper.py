"""An env composed of parts: the order of its calls, its episodes and its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import (
    EnvWrapper,
    LogCollector,
    LogLevel,
    Simulator,
    check_nan_observation,
)
from sekai.error import ClosedError, ResetRequired
from tests.compose.walks import Count, Nearness, Place, Push, Seen, Walk, walk_env
from tests.spaces.strategies import law

ACTIONS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


class Diary:
    """Records calls and the status at each of them."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def note(self, who: str, env: Any) -> None:
        status = None if env is None else env.status
        if status is None:
            self.lines.append((who, None))
            return
        lengths = tuple(map(len, (status.obs_history, status.action_history)))
        self.lines.append((who, status.cur_step, status.done, *lengths, len(status.reward_history)))

    def noting(self, base: type[Any], **names: str) -> type[Any]:
        """The class, with methods that make a note under a name before they are called."""

        def noted(method: str, who: str) -> Any:
            def call(component: Any, *args: Any) -> Any:
                self.note(who, component.env)
                return getattr(base, method)(component, *args)

            return call

        return type(base.__name__, (base,), {m: noted(m, who) for m, who in names.items()})


def diary_env(diary: Diary) -> Any:
    class Logger(LogCollector):
        def reset(self) -> None:
            diary.lines.append(("clear",))
            super().reset()

    def seeds() -> Iterator[float]:
        for seed in (0.0, 1.0):
            diary.lines.append(("seed",))
            yield seed

    walk = diary.noting(Walk, __init__="made", step="step", get_state="state", done="done")
    return EnvWrapper(
        lambda seed: walk(seed, 2),
        diary.noting(Seen, interpret="see")(),
        diary.noting(Push, interpret="act")(),
        seeds(),
        diary.noting(Nearness, reward="pay")(),
        diary.noting(Count, collect="aux")(),
        Logger(),
    )


def test_a_reset_calls_everything_in_order() -> None:
    diary = Diary()
    env = diary_env(diary)

    env.reset()

    assert diary.lines == [
        ("clear",),
        ("seed",),
        ("made", None),
        ("state", 0, False, 0, 0, 0),
        ("see", 0, False, 0, 0, 0),
    ]
    assert len(env.status.obs_history) == 1


def test_a_step_calls_everything_in_order() -> None:
    diary = Diary()
    env = diary_env(diary)
    env.reset()
    env.step(1)
    diary.lines.clear()

    env.step(2)

    # Each with: steps, done, observations, actions, rewards.
    assert diary.lines == [
        ("clear",),
        ("state", 1, False, 2, 2, 1),
        ("act", 1, False, 2, 2, 1),
        ("step", 2, False, 2, 2, 1),
        ("done", 2, False, 2, 2, 1),
        ("state", 2, True, 2, 2, 1),
        ("see", 2, True, 2, 2, 1),
        ("pay", 2, True, 3, 2, 1),
        ("aux", 2, True, 3, 2, 2),
    ]


@law
@given(actions=ACTIONS, seed=st.floats(-100, 100))
def test_histories_hold_what_was_seen_done_and_paid(actions: list[int], seed: float) -> None:
    env = walk_env([seed], length=100)
    seen, paid = [env.reset().observation], []
    for number, action in enumerate(actions, start=1):
        result = env.step(action)
        seen.append(result.observation)
        paid.append(result.reward)

        status = env.status
        assert status is not None
        assert status.cur_step == number
        assert not status.done
        assert status.initial_state == seed
        assert status.obs_history == seen
        assert status.action_history == actions[:number]
        assert status.reward_history == paid


@law
@given(lengths=st.integers(1, 5), seeds=st.lists(st.floats(-9, 9), max_size=4))
def test_every_seed_is_one_episode_and_then_there_are_none(
    lengths: int, seeds: list[float]
) -> None:
    env = walk_env(iter(seeds), length=lengths)
    begun = []
    while not (result := env.reset()).info["exhausted"]:
        assert env.status is not None
        begun.append(env.status.initial_state)
        steps = 0
        done = False
        while not done:
            step = env.step(1)
            done, steps = step.terminated, steps + 1
            assert not step.truncated
            assert not step.info["exhausted"]
        assert steps == lengths == step.info["log"]["steps_per_episode"][1]

    assert begun == seeds
    assert env.exhausted
    assert check_nan_observation(result.observation)
    assert result.info == {"log": {}, "aux_info": {}, "exhausted": True}


def test_there_is_no_status_before_the_first_reset_and_a_new_one_with_each() -> None:
    env: Any = walk_env()
    assert (env.status, env.simulator) == (None, None)
    env.reset()
    first = env.status
    env.step(1)
    env.reset()

    assert env.status is not first
    assert env.status["cur_step"] == env.status.cur_step == 0
    assert env.status["initial_state"] == 5.0
    with pytest.raises(
        KeyError, match="unknown status field 'steps'; expected one of .*'cur_step'"
    ):
        env.status["steps"]


def test_without_seeds_episodes_begin_without_end_and_without_an_argument() -> None:
    calls: list[tuple[Any, ...]] = []

    def simulator_fn(*arguments: Any) -> Walk:
        calls.append(arguments)
        return Walk()

    env = EnvWrapper(simulator_fn, Seen(), Push(), None)
    for _ in range(5):
        env.reset()

    assert calls == [()] * 5
    assert env.status is not None
    assert env.status.initial_state is None


def test_without_a_reward_function_nothing_is_paid() -> None:
    env = EnvWrapper(Walk, Seen(), Push(), [1.0])
    env.reset()

    result = env.step(2)

    assert result.reward == 0.0
    assert result.info["aux_info"] == {}
    assert env.status is not None
    assert env.status.reward_history == [0.0]


class Iterable:
    """Counts how often it was asked for an iterator."""

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[float]:
        self.asked += 1
        return iter([1.0, 2.0])


def test_an_iterable_is_asked_for_its_iterator_once_when_the_env_is_made() -> None:
    seeds = Iterable()
    env = walk_env(seeds)

    assert seeds.asked == 1
    starts = [float(env.reset().observation["position"][0]) for _ in range(2)]
    assert starts == [1.0, 2.0]
    assert env.reset().info["exhausted"]
    assert seeds.asked == 1


def test_the_log_of_a_step_is_in_its_info_and_that_of_a_reset_too() -> None:
    class Talking(Seen):
        def interpret(self, simulator_state: Place) -> Any:
            assert self.env is not None
            self.env.logger.add_string("seen", f"{simulator_state.position}", LogLevel.INFO)
            return super().interpret(simulator_state)

    env = EnvWrapper(Walk, Talking(), Push(), [1.0, 3.0], Nearness())

    assert env.reset().info["log"] == {"seen": (30, "1.0")}
    assert env.step(2).info["log"] == {"seen": (30, "2.0"), "reward": (20, -2.0)}
    assert env.reset().info["log"] == {"seen": (30, "3.0")}


def test_at_debug_level_observation_and_action_are_logged() -> None:
    env = walk_env(logger=LogCollector(LogLevel.DEBUG))
    env.reset()

    result = env.step(2)

    assert result.info["log"]["obs"] == (10, result.observation)
    assert result.info["log"]["policy_act"] == (10, 2)
    assert set(result.info["log"]) == {"reward", "obs", "policy_act"}


def test_writing_to_what_was_given_out_leaves_the_histories_alone() -> None:
    env = walk_env(logger=LogCollector(LogLevel.DEBUG))
    env.reset()
    result = env.step(2)
    assert env.status is not None

    result.observation["position"][0] = 99.0
    result.info["log"]["obs"][1]["position"][0] = 98.0
    result.info["log"].clear()

    assert env.status.obs_history[1]["position"] == 1.0
    assert "reward" in env.logger.logs()


def test_the_framework_seed_begins_the_stream_that_simulators_may_use() -> None:
    def path(seed: int) -> list[float]:
        env = walk_env([0.0] * 3, noise=1.0, length=3)
        env.reset(seed=seed)
        return [float(env.step(1).observation["position"][0]) for _ in range(3)]

    assert path(1) == path(1)
    assert path(1) != path(2)


def test_a_simulator_is_closed_once_when_the_next_begins_or_the_env_is_closed() -> None:
    env = walk_env()
    env.reset()
    first: Any = env.simulator
    env.reset()
    second: Any = env.simulator
    assert (first.closed, second.closed) == (1, 0)

    env.close()
    env.close()

    assert (first.closed, second.closed) == (1, 1)
    for call in (env.reset, lambda: env.step(1)):
        with pytest.raises(ClosedError, match="the env is closed"):
            call()


def test_a_simulator_without_close_needs_none() -> None:
    class Plain(Simulator[float, Place, float]):
        def step(self, action: float) -> None: ...

        def get_state(self) -> Place:
            return Place(0.0, 0)

        def done(self) -> bool:
            return False

    with EnvWrapper(Plain, Seen(), Push(), [1.0, 2.0]) as env:
        env.reset()
        env.reset()
        with pytest.raises(NotImplementedError, match=r"Plain has no render\(\)"):
            env.render()


def test_the_simulator_draws_itself() -> None:
    env = walk_env()
    with pytest.raises(ResetRequired, match="render"):
        env.render()
    env.reset()

    assert env.render() == "text: 0.0"
    assert env.render(mode="loud") == "loud: 0.0"
