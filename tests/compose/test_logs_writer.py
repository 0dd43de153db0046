"""Writers count, gather and aggregate what envs log."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import ConsoleWriter, LogBuffer, LogLevel, LogWriter
from sekai.error import ResetRequired, StateError
from tests.compose.episodes import log_of, tell, tell_all
from tests.compose.walks import walk_env
from tests.spaces.strategies import law

VALUES = st.floats(-1e6, 1e6)


class Recorder(LogWriter):
    """Log writer that records all calls."""

    def __init__(self, loglevel: int = LogLevel.PERIODIC) -> None:
        super().__init__(loglevel)
        self.steps: list[Any] = []
        self.episodes: list[Any] = []

    def log_step(self, reward: float, contents: dict[str, Any]) -> None:
        self.steps.append((reward, contents))

    def log_episode(self, length: int, rewards: list[float], contents: list[Any]) -> None:
        self.episodes.append((length, rewards, contents))


@law
@given(st.lists(VALUES, min_size=1, max_size=9))
def test_floats_become_their_mean_and_rewards_their_sum(values: list[float]) -> None:
    assert LogWriter.aggregation(values, "pa") == pytest.approx(np.mean(values))
    assert LogWriter.aggregation(values, "reward") == pytest.approx(sum(values))
    assert LogWriter.aggregation(["a", *values], "pa") == "a"
    assert LogWriter.aggregation([*values, "a"], "reward") == values[0]


def test_what_is_not_finite_stays_so_and_nothing_is_an_error() -> None:
    assert math.isnan(LogWriter.aggregation([1.0, math.nan], "x"))
    assert LogWriter.aggregation([1.0, math.inf], "reward") == math.inf
    with pytest.raises(ValueError, match="no values of 'x' to aggregate"):
        LogWriter.aggregation([], "x")


@law
@given(
    turns=st.lists(st.tuples(st.integers(0, 2), VALUES, st.booleans()), max_size=30),
    pause=st.integers(0, 30),
)
def test_episodes_of_several_envs_are_told_apart_and_counted(turns: Any, pause: int) -> None:
    writer, restored = Recorder(), Recorder()
    running: dict[int, list[float]] = {}
    ended = []
    for number, (env, reward, done) in enumerate(turns):
        if number == pause:
            # Half of them are told to another writer that takes over the state.
            restored.load_state_dict(writer.state_dict())
            restored.steps, restored.episodes = writer.steps, writer.episodes
            writer = restored
        if env not in running:
            writer.on_env_reset(env, None)
            running[env] = []
        running[env].append(reward)
        writer.on_env_step(env, None, reward, done, log_of({"x": reward}))
        if done:
            rewards = running.pop(env)
            ended.append((len(rewards), rewards, [{"x": value} for value in rewards]))

    assert writer.episodes == ended
    assert writer.steps == [(reward, {"x": reward}) for _, reward, _ in turns]
    assert (writer.step_count, writer.episode_count) == (len(turns), len(ended))
    assert (writer.global_step, writer.global_episode) == (len(turns), len(ended))


def test_a_new_collection_clears_all_but_the_global_counts() -> None:
    writer = Recorder()
    for _ in range(2):
        tell_all(writer, [[{"x": 1.0}] * 3, [{"x": 1.0}] * 2])

    assert (writer.step_count, writer.episode_count) == (5, 2)
    assert (writer.global_step, writer.global_episode) == (10, 4)
    writer.on_env_reset(0, None)
    writer.clear()
    assert writer.episode_lengths == {}
    assert (writer.step_count, writer.episode_count, writer.global_step) == (0, 0, 10)


def test_only_entries_of_the_writers_level_are_passed_on() -> None:
    writer = Recorder(LogLevel.INFO)
    info = {"log": {"low": (20, 1.0), "same": (30, 2.0), "high": (40, 3.0)}}
    writer.on_env_reset(0, None)
    writer.on_env_step(0, None, 1.0, True, info)

    assert writer.steps == [(1.0, {"same": 2.0, "high": 3.0})]


def test_what_was_logged_in_a_reset_comes_before_the_steps() -> None:
    writer = Recorder()
    writer.on_env_reset(3, None, log_of({"day": "monday"}))
    writer.on_env_step(3, None, 1.0, True, log_of({"x": 1.0}))

    assert writer.episodes == [(1, [1.0], [{"day": "monday"}, {"x": 1.0}])]
    assert writer.aggregated(writer.episodes[0][2]) == {"day": "monday", "x": 1.0}


def test_a_step_before_a_reset_is_refused_and_counts_nothing() -> None:
    writer = Recorder()
    tell(writer, [{"x": 1.0}])

    with pytest.raises(ResetRequired, match="Recorder got a step of env 0 before its reset"):
        writer.on_env_step(0, None, 1.0, False, {})

    assert writer.step_count == 1


def test_a_composed_env_is_told_of_as_it_goes() -> None:
    env, writer = walk_env([0.0, 5.0], length=2), Recorder()
    writer.on_env_all_ready()
    while not (first := env.reset()).info["exhausted"]:
        writer.on_env_reset(0, first.observation, first.info)
        done = False
        while not done:
            result = env.step(2)
            done = result.done
            writer.on_env_step(0, result.observation, result.reward, done, result.info)

    assert [rewards for _, rewards, _ in writer.episodes] == [[-1.0, -2.0], [-6.0, -7.0]]
    assert writer.aggregated(writer.episodes[1][2]) == {"reward": -13.0, "steps_per_episode": 2.0}


@pytest.mark.parametrize("damage", [{"more": 1}, {"global_step": None}])
def test_a_state_of_something_else_is_refused(damage: dict[str, Any]) -> None:
    writer = Recorder()
    state = writer.state_dict() | damage
    if "global_step" in damage:
        del state["global_step"]

    with pytest.raises(StateError, match="state of Recorder must have the keys"):
        writer.load_state_dict(state)


class Calls:
    """Keeps what a buffer says when it calls back."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, on_episode: bool, on_collect: bool, buffer: LogBuffer) -> None:
        self.made.append((on_episode, on_collect, buffer.collect_metrics()))


def test_a_buffer_calls_back_after_episodes_and_collections() -> None:
    calls = Calls()
    buffer = LogBuffer(calls)

    tell_all(buffer, [[{"reward": 1.0}, {"reward": 3.0}], [{"reward": 6.0}]])

    assert calls.made == [
        (True, False, {"reward": 4.0}),
        (True, False, {"reward": 5.0}),
        (False, True, {"reward": 5.0}),
    ]
    assert buffer.episode_metrics() == {"reward": 6.0}


@law
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=1, max_size=6)
)
def test_a_metric_is_averaged_over_the_episodes_that_have_it(episodes: list[Any]) -> None:
    buffer = LogBuffer(Calls())
    tell_all(buffer, [[values] for values in episodes])

    names = {name for values in episodes for name in values}
    assert buffer.collect_metrics() == {
        name: pytest.approx(np.mean([values[name] for values in episodes if name in values]))
        for name in names
    }


def test_a_buffer_has_no_episode_before_the_first_nor_after_a_clear() -> None:
    buffer = LogBuffer(Calls())
    with pytest.raises(ValueError, match="no episode has ended"):
        buffer.episode_metrics()
    tell(buffer, [{"x": 1.0, "word": "a"}])
    assert buffer.episode_metrics() == {"x": 1.0}

    buffer.on_env_all_ready()

    assert buffer.collect_metrics() == {}
    with pytest.raises(ValueError, match="no episode has ended"):
        buffer.episode_metrics()


def test_a_buffer_goes_on_from_its_state() -> None:
    buffer, other = LogBuffer(Calls()), LogBuffer(Calls())
    tell(buffer, [{"x": 1.0}])
    other.load_state_dict(buffer.state_dict())
    tell(buffer, [{"x": 100.0}])
    tell(other, [{"x": 3.0}])

    assert other.collect_metrics() == {"x": 2.0}
    assert other.episode_count == 2


def printed(writer: ConsoleWriter, count: int) -> list[str]:
    stream = io.StringIO()
    writer.stream = stream
    tell_all(writer, [[{"pa": float(number), "word": "a"}] for number in range(1, count + 1)])
    return stream.getvalue().splitlines()


def test_the_console_has_a_line_every_few_episodes_and_one_for_the_last() -> None:
    assert printed(ConsoleWriter(2, total_episodes=5), 5) == [
        "[   2/5]   pa 2.0000 (1.5000)",
        "[   4/5]   pa 4.0000 (2.5000)",
        "[   5/5]   pa 5.0000 (3.0000)",
    ]


def test_the_console_counts_when_the_total_is_unknown() -> None:
    writer = ConsoleWriter(3, float_format=":.1f", counter_format=":d")
    writer.prefix = "val"

    assert printed(writer, 7) == ["val [Step 3]   pa 3.0 (2.0)", "val [Step 6]   pa 6.0 (3.5)"]
    # A second collection begins its means anew.
    assert printed(writer, 3) == ["val [Step 3]   pa 3.0 (2.0)"]


def test_the_console_is_the_standard_output_of_the_moment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_all(ConsoleWriter(1), [[{"x": 0.5}]])

    assert capsys.readouterr().out == "[Step    1]   x 0.5000 (0.5000)\n"


def test_a_console_that_never_prints_is_refused() -> None:
    with pytest.raises(ValueError, match="log_every_n_episode must be at least 1, got 0"):
        ConsoleWriter(0)
