from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import StateError
from sekai.spaces import Box, Dict, Discrete, Tuple
from sekai.stats.tracker import EpisodeStats, InMemoryTracker
from sekai.wrappers import (
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeLimit,
)
from tests.worlds import Market, RandomWalk

ACTION = np.zeros(2, dtype=np.float32)


class Replay(Env[Any, Any]):
    """Shows given observations and pays given rewards, whatever the action."""

    def __init__(self, space: Any, observations: list[Any], rewards: list[float]) -> None:
        self.observation_space = space
        self.action_space = Discrete(2)
        self._observations, self._rewards, self._now = observations, rewards, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._now = 0
        return ResetResult(self._observations[0], {})

    def step(self, action: Any) -> StepResult[Any]:
        self._now += 1
        over = self._now == len(self._rewards)
        return StepResult(
            self._observations[self._now], self._rewards[self._now - 1], over, False, {}
        )


class Listener:
    """A tracker that remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_reset(self, env_id: str, seed: int | None) -> None:
        self.calls.append(("reset", env_id, seed))

    def on_step(self, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        self.calls.append(("step", reward, terminated, truncated))

    def on_episode_end(self, stats: EpisodeStats) -> None:
        self.calls.append(("end", stats.episode_return))

    def summary(self) -> dict[str, float]:
        return {}


def test_the_last_step_carries_the_statistics_of_its_episode() -> None:
    env = RecordEpisodeStatistics(TimeLimit(Market(), 4))
    env.reset(seed=3)
    results = [env.step(np.intp(2)) for _ in range(4)]

    episode = results[-1].info["episode"]

    assert isinstance(episode, EpisodeStats)
    assert episode.episode_return == pytest.approx(sum(result.reward for result in results))
    assert episode.episode_length == 4
    assert episode.elapsed_time > 0
    assert (episode.terminated, episode.truncated) == (False, True)
    assert all("episode" not in result.info for result in results[:-1])


def test_the_info_of_the_env_itself_is_not_written_to() -> None:
    info: dict[str, Any] = {}

    class Shared(RandomWalk):
        def step(self, action: Any) -> StepResult[Any]:
            return StepResult(ACTION, 0.0, True, False, info)

    env = RecordEpisodeStatistics(Shared())
    env.reset(seed=0)

    assert "episode" in env.step(ACTION).info
    assert info == {}


def test_the_default_tracker_keeps_the_last_episodes() -> None:
    env = RecordEpisodeStatistics(TimeLimit(RandomWalk(noise=0.0), 3))
    for seed in range(5):
        result: Any = env.reset(seed=seed)
        while not getattr(result, "done", False):
            result = env.step(ACTION)

    assert isinstance(env.tracker, InMemoryTracker)
    assert env.tracker.mean_length() <= 3
    assert np.isfinite(env.tracker.mean_return())


def test_a_tracker_hears_of_every_reset_step_and_end() -> None:
    listener = Listener()
    env = RecordEpisodeStatistics(Replay(Discrete(9), [1, 2, 3], [0.5, 1.0]), tracker=listener)

    env.reset(seed=8)
    env.step(0)
    env.step(0)

    assert listener.calls == [
        ("reset", "Replay", 8),
        ("step", 0.5, False, False),
        ("step", 1.0, True, False),
        ("end", 1.5),
    ]


def test_a_reset_in_mid_episode_begins_the_sum_anew() -> None:
    env = RecordEpisodeStatistics(Replay(Discrete(9), [1, 2, 3], [0.5, 1.0]))
    env.reset()
    env.step(0)
    env.reset()
    env.step(0)

    assert env.step(0).info["episode"].episode_return == 1.5


def test_observations_are_shown_in_deviations_from_the_running_mean() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(40, 2))
    env = NormalizeObservation(
        Replay(Box(-np.inf, np.inf, (2,), np.float64), list(values), [0.0] * 39)
    )

    shown = [env.reset().observation] + [env.step(0).observation for _ in range(39)]

    for now in range(1, 40):
        seen = values[: now + 1]
        expected = (values[now] - seen.mean(0)) / np.sqrt(seen.var(0) + 1e-8)
        assert np.allclose(shown[now], expected, rtol=1e-9, atol=1e-12)


def test_normalised_observations_keep_single_precision() -> None:
    env = NormalizeObservation(RandomWalk())

    observation = env.reset(seed=0).observation

    assert observation.dtype == np.float32
    assert observation in env.observation_space


def test_every_box_of_a_nested_space_is_normalised_on_its_own() -> None:
    space = Dict(
        {
            "level": Box(0, 100, (1,), np.float32),
            "pair": Tuple([Box(0, 9, (2,), np.int64), Discrete(3)]),
        }
    )
    samples = [
        {"level": np.array([x], np.float32), "pair": (np.array([i, 2 * i]), np.intp(1))}
        for i, x in enumerate([10.0, 20.0, 60.0])
    ]
    env = NormalizeObservation(Replay(space, samples, [0.0, 0.0]))
    env.reset()
    env.step(0)

    shown = env.step(0).observation

    deviation = np.std([10.0, 20.0, 60.0])
    assert shown["level"] == pytest.approx(np.array([30.0 / deviation]), rel=1e-6)
    assert shown["pair"][0] == pytest.approx(np.full(2, 1.0 / np.std([0, 1, 2])), rel=1e-6)
    assert shown["pair"][1] == 1
    assert shown in env.observation_space


def test_a_frozen_normaliser_learns_nothing() -> None:
    env = NormalizeObservation(RandomWalk())
    env.reset(seed=0)
    env.step(ACTION)
    before = env.moments.state_dict()

    env.learning = False
    env.step(ACTION)

    assert env.moments.state_dict()[""]["count"] == before[""]["count"] == 2


def test_clipping_bounds_the_observation_space_too() -> None:
    env = NormalizeObservation(RandomWalk(), clip=0.5)

    env.reset(seed=0)
    shown = [env.step(ACTION).observation for _ in range(20)]

    assert env.observation_space == Box(-0.5, 0.5, (2,), np.float32)
    assert max(np.abs(observation).max() for observation in shown) == 0.5


def test_an_observation_that_is_not_finite_is_refused_before_it_spoils_the_statistics() -> None:
    space = Box(-np.inf, np.inf, (2,), np.float64)
    env = NormalizeObservation(Replay(space, [np.ones(2), np.array([1.0, np.inf])], [0.0, 0.0]))
    env.reset()

    with pytest.raises(ValueError, match="finite values, got inf"):
        env.step(0)

    assert env.moments.state_dict()[""]["count"] == 1


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"clip": -1.0}])
def test_senseless_settings_of_the_normaliser_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        NormalizeObservation(RandomWalk(), **bad)


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return() -> None:
    rewards = [1.0, -2.0, 0.5, 3.0]
    env = NormalizeReward(Replay(Discrete(9), [0] * 5, rewards), gamma=0.9)
    env.reset()

    shown = [env.step(0).reward for _ in rewards]

    discounted, returns = 0.0, []
    for now, reward in enumerate(rewards):
        discounted = 0.9 * discounted + reward
        returns.append(discounted)
        divisor = np.sqrt(np.var(returns) + 1e-8) if now else 1.0
        assert shown[now] == pytest.approx(reward / divisor, rel=1e-9)


def test_the_discounted_return_begins_anew_with_each_episode() -> None:
    env = NormalizeReward(Replay(Discrete(9), [0, 0], [1.0]))
    env.reset()
    env.step(0)
    env.reset()
    env.step(0)

    assert env.scale.state_dict()["returns"].tolist() == [0.0]
    assert env.scale.variance == 0.0


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_discount_outside_zero_to_one_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        NormalizeReward(RandomWalk(), gamma)


def test_a_normaliser_refuses_the_state_of_another_space() -> None:
    env = NormalizeObservation(RandomWalk())
    env.reset(seed=0)
    state = NormalizeObservation(Market()).state_dict()
    before = env.state_dict()["layer"]["parts"]["moments"]

    with pytest.raises(StateError):
        env.load_state_dict({"layer": state["layer"], "env": env.env.state_dict()})

    after = env.state_dict()["layer"]["parts"]["moments"]
    assert np.array_equal(after[""]["mean"], before[""]["mean"])


def test_a_reset_in_mid_episode_begins_the_discounted_return_anew() -> None:
    env = NormalizeReward(Replay(Discrete(9), [0, 0, 0], [1.0, 1.0]))
    env.reset()
    env.step(0)

    env.reset()

    assert env.scale.state_dict()["returns"].tolist() == [0.0]


def test_damaged_moments_of_one_part_leave_all_parts_as_they_were() -> None:
    space = Dict({"a": Box(0, 9, (1,)), "b": Box(0, 9, (1,))})
    sample = {"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}
    moments = NormalizeObservation(Replay(space, [sample], [])).moments
    other = NormalizeObservation(Replay(space, [sample], [])).moments
    other.normalise(sample, True)
    state = other.state_dict()
    state["/b"]["mean"] = np.ones(2)

    with pytest.raises(StateError, match="do not fit"):
        moments.load_state_dict(state)

    assert [part["count"] for part in moments.state_dict().values()] == [0, 0]
