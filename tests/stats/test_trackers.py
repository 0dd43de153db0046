"""In-memory and logging trackers."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai.stats
import sekai.stats.tracker
from sekai.error import StateError
from sekai.stats import EpisodeStats, InMemoryTracker, LoggingTracker, StatsTracker
from sekai.wrappers import RecordEpisodeStatistics, TimeLimit
from tests.worlds import RandomWalk

EPISODES = st.builds(
    EpisodeStats,
    episode_return=st.floats(-1e9, 1e9),
    episode_length=st.integers(1, 10**6),
    elapsed_time=st.floats(0, 1e6),
    terminated=st.booleans(),
    truncated=st.booleans(),
)


def episode(episode_return: float = 1.0, length: int = 3) -> EpisodeStats:
    return EpisodeStats(episode_return, length, 0.5, terminated=True, truncated=False)


@given(st.lists(EPISODES, min_size=1, max_size=5))
def test_episodes_made_from_columns_equal_those_made_one_by_one(episodes: list[Any]) -> None:
    made = EpisodeStats.of_columns(*zip(*map(dataclasses.astuple, episodes), strict=True))

    assert made == episodes
    assert list(map(hash, made)) == list(map(hash, episodes))
    assert [dataclasses.asdict(one) for one in made] == [dataclasses.asdict(e) for e in episodes]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made[0].episode_return = 0.0  # type: ignore[misc]


def test_columns_of_episodes_must_be_those_of_the_fields() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        EpisodeStats.of_columns([1.0], [3])


def run_episodes(tracker: StatsTracker, count: int, length: int = 4) -> list[EpisodeStats]:
    """Play `count` short episodes and return what their last steps said."""
    env = RecordEpisodeStatistics(TimeLimit(RandomWalk(noise=0.0), length), tracker=tracker)
    finished = []
    for seed in range(count):
        result: Any = env.reset(seed=seed)
        while "episode" not in result.info:
            result = env.step(np.zeros(2, dtype=np.float32))
        finished.append(result.info["episode"])
    return finished


class WandbTracker:
    """The document's tracker of one's own; the list stands for the service."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []

    def on_reset(self, env_id: str, seed: int | None) -> None: ...
    def on_step(
        self, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]
    ) -> None: ...
    def on_episode_end(self, stats: EpisodeStats) -> None:
        self.logged.append({"episode_return": stats.episode_return})

    def summary(self) -> dict[str, Any]:
        return {}


def test_both_modules_export_all_names() -> None:
    for module in (sekai.stats, sekai.stats.tracker):
        for name in sekai.stats.__all__:
            assert getattr(module, name) is getattr(sekai.stats, name)


def test_any_class_with_the_methods_is_a_tracker() -> None:
    tracker = WandbTracker()

    (finished,) = run_episodes(tracker, 1)

    assert isinstance(tracker, StatsTracker)
    assert isinstance(InMemoryTracker(), StatsTracker)
    assert isinstance(LoggingTracker(), StatsTracker)
    assert not isinstance(object(), StatsTracker)
    assert tracker.logged == [{"episode_return": finished.episode_return}]


@given(EPISODES)
def test_stats_survive_json_and_pickling(stats: EpisodeStats) -> None:
    text = json.dumps(dataclasses.asdict(stats))

    assert EpisodeStats(**json.loads(text)) == stats
    assert pickle.loads(pickle.dumps(stats)) == stats


def test_stats_hold_pythons_own_numbers() -> None:
    stats = EpisodeStats(
        np.float32(1.5),
        np.int64(3),
        np.float64(0.1),
        np.bool_(True),  # type: ignore[arg-type]
        np.bool_(False),  # type: ignore[arg-type]
    )

    kinds = [type(value) for value in dataclasses.astuple(stats)]
    assert kinds == [float, int, float, bool, bool]


def test_stats_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        episode().episode_return = 2.0  # type: ignore[misc]


@given(st.lists(EPISODES, min_size=1, max_size=20), st.integers(1, 8))
def test_means_are_over_the_window_and_totals_over_all(
    episodes: list[EpisodeStats], window: int
) -> None:
    tracker = InMemoryTracker(window)

    for each in episodes:
        tracker.on_episode_end(each)

    kept = episodes[-window:]
    assert tracker.episodes == tuple(kept)
    assert tracker.mean_return() == pytest.approx(np.mean([each.episode_return for each in kept]))
    assert tracker.mean_length() == pytest.approx(np.mean([each.episode_length for each in kept]))
    assert tracker.summary()["episodes"] == len(episodes)
    assert tracker.summary()["steps"] == sum(each.episode_length for each in episodes)


@given(st.lists(EPISODES, max_size=9), st.lists(EPISODES, max_size=5), st.integers(1, 4))
def test_a_restored_tracker_continues_like_the_original(
    before: list[EpisodeStats], after: list[EpisodeStats], window: int
) -> None:
    original, restored = InMemoryTracker(window), InMemoryTracker()
    for each in before:
        original.on_episode_end(each)
    restored.load_state_dict(json.loads(json.dumps(original.state_dict())))

    for each in after:
        original.on_episode_end(each)
        restored.on_episode_end(each)

    assert restored.state_dict() == original.state_dict()


def test_before_the_first_episode_means_are_not_a_number() -> None:
    tracker = InMemoryTracker()

    assert math.isnan(tracker.mean_return())
    assert math.isnan(tracker.mean_length())
    assert tracker.summary()["episodes"] == 0


@pytest.mark.parametrize("window", [0, -1, 2.5, True])
def test_a_window_of_less_than_one_episode_is_refused(window: Any) -> None:
    with pytest.raises(ValueError, match="window must be at least 1 episode"):
        InMemoryTracker(window)


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"episodes": [{"episode_return": 1.0}]},
        {"total_steps": "many"},
        {"window": "wide"},
    ],
)
def test_a_refused_state_changes_nothing(change: dict[str, Any]) -> None:
    tracker = InMemoryTracker(window=2)
    tracker.on_episode_end(episode())
    before = tracker.state_dict()

    with pytest.raises(StateError):
        tracker.load_state_dict({**before, **change})

    assert tracker.state_dict() == before


def test_the_tracker_of_a_wrapper_is_part_of_its_state() -> None:
    env = RecordEpisodeStatistics(TimeLimit(RandomWalk(noise=0.0), 2))
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(2, dtype=np.float32))
    other = RecordEpisodeStatistics(TimeLimit(RandomWalk(noise=0.0), 2))

    other.load_state_dict(env.state_dict())

    assert isinstance(other.tracker, InMemoryTracker)
    assert other.tracker.summary() == env.tracker.summary()


def test_an_episode_is_logged_with_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    tracker = LoggingTracker()
    with caplog.at_level(logging.DEBUG, logger="sekai.stats"):
        first, second = run_episodes(tracker, 2)

    events = [vars(record)["event"] for record in caplog.records]
    last = vars(caplog.records[-1])
    assert events == ["reset", "episode_end", "reset", "episode_end"]
    assert {name: last[name] for name in dataclasses.asdict(second)} == dataclasses.asdict(second)
    assert (last["env_id"], last["seed"], last["episode"]) == ("RandomWalk", 1, 1)
    assert caplog.records[1].levelno == logging.INFO
    assert f"return {first.episode_return:g} over 4 steps" in caplog.messages[1]
    assert tracker.summary() == {"episodes": 2, "steps": 8}


def test_the_logger_and_the_level_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    tracker = LoggingTracker(logging.getLogger("mine"), level=logging.WARNING)

    run_episodes(tracker, 1)

    assert [(record.name, record.levelname) for record in caplog.records] == [("mine", "WARNING")]


def test_a_logging_tracker_counts_on_after_a_restore() -> None:
    tracker, other = LoggingTracker(), LoggingTracker()
    run_episodes(tracker, 3)

    other.load_state_dict(json.loads(json.dumps(tracker.state_dict())))

    assert other.summary() == tracker.summary() == {"episodes": 3, "steps": 12}
    with pytest.raises(StateError, match="keys .*; expected"):
        other.load_state_dict({"total_steps": 1})
