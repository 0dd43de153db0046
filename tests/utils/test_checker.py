"""`check_env` finds what is broken, and nothing where nothing is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sekai
from sekai import wrappers
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete, MaskedBox, MultiDiscrete, Simplex, Tuple
from sekai.stats import InMemoryTracker
from sekai.utils.checker import check_env
from tests.utils.broken_worlds import BROKEN, Make, Masked, OutOfBounds, Walk, WrongShape
from tests.worlds import AsyncRandomWalk, Duel, Market, RandomWalk


@pytest.mark.parametrize(("make", "begins"), BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_a_broken_env_is_caught_and_the_break_is_named(make: Make, begins: str) -> None:
    issues = check_env(make())

    assert any(issue.startswith(begins) for issue in issues), "\n".join(issues)


class Countdown(Env[Any, Any]):
    """An env without any randomness, written as plainly as can be."""

    def __init__(self) -> None:
        self.observation_space = Discrete(11)
        self.action_space = Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._left = 10
        return ResetResult(self._left, {})

    def step(self, action: Any) -> StepResult[Any]:
        self._left -= 1
        is_over: Any = np.bool_(self._left == 0)
        return StepResult(self._left, 1, is_over, False, {})


class ManySpaces(Env[Any, Any]):
    """Observations and actions of every kind."""

    def __init__(self) -> None:
        self.observation_space = Dict(
            {"set": MaskedBox(-1.0, 1.0, (3, 2)), "weights": Simplex(3), "kind": Discrete(4)}
        )
        self.action_space = Tuple([MultiDiscrete([2, 3]), Box(0, 9, (2,), np.int16)])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self.observation_space.seed(int(self.rng.integers(1 << 30)))
        return ResetResult(self.observation_space.sample(), {})

    def step(self, action: Any) -> StepResult[Any]:
        return StepResult(self.observation_space.sample(), float(action[0].sum()), False, False, {})


class Endless(Env[Any, Any]):
    """Env of pure noise, without end and without attributes before the reset."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, shape=(16,))
        self.action_space = Box(-1.0, 1.0, shape=(4,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        return ResetResult(self.rng.standard_normal(16).astype(np.float32), {})

    def step(self, action: Any) -> StepResult[Any]:
        observation = self.rng.standard_normal(16).astype(np.float32)
        return StepResult(observation, float(-np.square(action).sum()), False, False, {})

    def close(self) -> None:
        """There is nothing to release, and stepping goes on to work."""


class Holdings(Env[Any, Any]):
    """Weights that are normalised and kept, beside windows of noise.

    Observation: a window of features and the weights held.
    Action: weights, -1 to 1.
    Reward: what the weights earn, less the cost of turnover.
    Terminates: never.
    Truncates: after 30 steps.
    """

    def __init__(self) -> None:
        self.observation_space = Dict(
            {"window": Box(-np.inf, np.inf, (6, 3, 5)), "held": Box(-1.0, 1.0, (3,))}
        )
        self.action_space = Box(-1.0, 1.0, (3,))
        self._held = np.zeros(3, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self._held = np.zeros(3, np.float32)
        self._steps = 0
        return ResetResult(self._observation(), {"held": self._held.copy()})

    def step(self, action: Any) -> StepResult[Any]:
        weights = action / (np.abs(action).sum() + 1e-8)
        turnover = float(np.abs(weights - self._held).sum())
        earned = float(weights @ self.rng.standard_normal(3)) * 0.01
        self._held = weights.copy()
        self._steps += 1
        info = {"earned": earned, "turnover": turnover}
        reward = earned - 1e-4 * turnover
        return StepResult(self._observation(), reward, False, self._steps >= 30, info)

    def _observation(self) -> dict[str, Any]:
        window = self.rng.standard_normal((6, 3, 5)).astype(np.float32)
        return {"window": window, "held": self._held.copy()}


class ReadOnlyWindows(Walk):
    """Gives out views of its data, which nobody can write to."""

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        self._data = self.rng.normal(size=(500, 2)).astype(np.float32)
        self._data.flags.writeable = False
        self._row = 0
        return result

    def step(self, action: Any) -> StepResult[Any]:
        self._row += 1
        return self._changed(super().step(action), observation=self._data[self._row])


def stacked() -> Any:
    env = wrappers.TimeLimit(wrappers.OrderEnforcing(AsyncRandomWalk()), 7)
    env = wrappers.NormalizeReward(wrappers.RecordEpisodeStatistics(env))  # type: ignore[assignment]
    return wrappers.NormalizeObservation(wrappers.FrameStackObservation(env, 3))


class MovingAverageReward(sekai.RewardWrapper[Any, Any]):
    """Remembers rewards through all episodes, as wrappers may."""

    def __init__(self, env: Env[Any, Any]) -> None:
        super().__init__(env)
        self._rewards: list[float] = []

    def reward(self, reward: float) -> float:
        self._rewards.append(reward)
        return float(np.mean(self._rewards))


RIGHT: list[Make] = [
    RandomWalk,
    AsyncRandomWalk,
    Market,
    Countdown,
    Endless,
    Holdings,
    ManySpaces,
    ReadOnlyWindows,
    Masked,
    Duel,
    stacked,
    lambda: MovingAverageReward(RandomWalk()),
    lambda: wrappers.FlattenObservation(Market()),
    lambda: wrappers.AutoReset(RandomWalk()),
    lambda: wrappers.DelayAction(Market(), 2, initial=1),
    lambda: wrappers.DelayObservation(wrappers.RescaleAction(RandomWalk(), -3.0, 3.0), 2),
    lambda: wrappers.MultiAgentOrderEnforcing(wrappers.MultiAgentTimeLimit(Duel(), 5)),
]


@pytest.mark.parametrize("make", RIGHT)
@pytest.mark.parametrize("seed", [0, 11])
def test_a_right_env_gives_no_issues(make: Make, seed: int) -> None:
    assert check_env(make(), seed=seed) == []


@pytest.mark.parametrize(
    "levels", [(True, True), (False, False)], ids=["with warnings", "errors only"]
)
def test_warnings_can_be_left_out(levels: tuple[bool, bool]) -> None:
    warn_on_anomaly, expected = levels

    issues = check_env(OutOfBounds(), warn_on_anomaly=warn_on_anomaly)

    assert bool(issues) is expected


def test_what_happens_at_every_step_is_told_once_and_counted() -> None:
    issues = check_env(WrongShape(), n_steps=50)

    assert len(issues) == 1
    assert issues[0].endswith("(50 times in all)")


def test_observations_are_left_alone_if_asked() -> None:
    assert check_env(WrongShape(), check_obs_space=False) == []


def test_samples_of_the_action_space_are_left_alone_if_asked() -> None:
    class Strange(Box):
        def mismatch(self, value: object) -> str | None:
            return "never"

    env = RandomWalk()
    env.action_space = Strange(-1.0, 1.0, (2,), np.float32)

    assert check_env(env) != []
    assert check_env(env, check_action_space=False) == []


def test_seeds_are_left_alone_if_asked() -> None:
    class Unseeded(Walk):
        def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
            return super().reset()

    assert check_env(Unseeded()) != []
    assert check_env(Unseeded(), check_reset_seed=False) == []


@pytest.mark.parametrize(("stochastic", "is_accused"), [(None, True), (True, True), (False, False)])
def test_an_env_is_taken_at_its_word_about_randomness(
    stochastic: bool | None, is_accused: bool
) -> None:
    class Decorative(Countdown):
        def step(self, action: Any) -> StepResult[Any]:
            self._set_rng(None)
            self.rng.normal()
            return super().step(action)

    if stochastic is not None:
        Decorative.metadata = {"stochastic": stochastic}

    assert bool(check_env(Decorative())) is is_accused


def test_an_env_that_declares_randomness_and_has_none_is_caught() -> None:
    class Silent(Countdown):
        metadata = {"stochastic": True}  # noqa: RUF012 - the form in which envs declare it

    issues = check_env(Silent())

    assert len(issues) == 1
    assert "ignores its seed" in issues[0]


def test_what_wrappers_learned_is_as_it_was() -> None:
    tracker = InMemoryTracker()
    env = wrappers.NormalizeObservation(
        wrappers.RecordEpisodeStatistics(RandomWalk(), tracker=tracker)
    )
    env.reset(seed=3)
    before = env.moments.state_dict()

    check_env(env)

    assert str(env.moments.state_dict()) == str(before)
    assert env.env.tracker is tracker  # type: ignore[attr-defined]
    assert len(tracker.episodes) == 0


def test_an_env_can_be_used_after_it_was_checked() -> None:
    env = wrappers.OrderEnforcing(RandomWalk())

    check_env(env)

    env.reset(seed=0)
    env.step(env.action_space.sample())


def test_the_streams_of_the_action_space_are_not_moved() -> None:
    env = RandomWalk()
    env.action_space.seed(5)
    before = env.action_space.state_dict()

    check_env(env)

    assert env.action_space.state_dict() == before


@pytest.mark.parametrize("thing", [3, None, RandomWalk, "Walk-v0"])
def test_what_is_no_env_is_an_error_and_not_an_exception(thing: Any) -> None:
    issues = check_env(thing)

    assert len(issues) == 1
    assert issues[0].startswith("ERROR: expected a")


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        check_env(RandomWalk(), n_steps=0)


def test_the_check_runs_inside_an_event_loop() -> None:
    import asyncio

    async def main() -> list[str]:
        return check_env(AsyncRandomWalk(), n_steps=20)

    assert asyncio.run(main()) == []


class Broken(Duel):
    """A duel whose results can be spoilt."""

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        return self.spoilt(super().step(actions))

    def spoilt(self, result: MAStepResult) -> MAStepResult:
        return result


class NamesNobody(Duel):
    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["north", "north"]


class LacksASpace(Duel):
    def __init__(self) -> None:
        super().__init__()
        self.action_spaces = {"north": self.action_spaces["north"]}


class LacksARewardEntry(Broken):
    def spoilt(self, result: MAStepResult) -> MAStepResult:
        return dataclasses.replace(result, rewards={"north": 0.0})


class SpeaksToStrangers(Broken):
    def spoilt(self, result: MAStepResult) -> MAStepResult:
        return dataclasses.replace(result, info={**result.info, "east": {}})


class RewardsWithArrays(Broken):
    def spoilt(self, result: MAStepResult) -> MAStepResult:
        rewards: dict[str, Any] = {**result.rewards, "south": np.zeros(2)}
        return dataclasses.replace(result, rewards=rewards)


class KeepsTheFallen(Broken):
    def spoilt(self, result: MAStepResult) -> MAStepResult:
        return dataclasses.replace(result, terminated={"north": True, "south": False})


class BeginsEmpty(Duel):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        result = super().reset(seed=seed, options=options)
        self.agents = []
        return result


@pytest.mark.parametrize(
    ("make", "begins"),
    [
        (NamesNobody, "ERROR: possible_agents must be unique"),
        (LacksASpace, "ERROR: action_spaces lacks the agents ['south']"),
        (LacksARewardEntry, "ERROR: rewards at step 1 lacks ['south']"),
        (SpeaksToStrangers, "ERROR: info at step 1 has unknown agents ['east']"),
        (RewardsWithArrays, "ERROR: reward of agent 'south' at step 1 must be a float"),
        (KeepsTheFallen, "WARNING: agents ['north'] are done at step 1 but still in agents"),
        (BeginsEmpty, "ERROR: agents is empty after reset(seed=0); expected at least one"),
    ],
)
def test_a_broken_env_of_several_agents_is_caught(make: Make, begins: str) -> None:
    issues = check_env(make())

    assert any(issue.startswith(begins) for issue in issues), "\n".join(issues)


class UnseededSpaces(MultiAgentEnv):
    """Samples its observations from spaces that nobody seeds, as the document's example does."""

    def __init__(self) -> None:
        self.possible_agents = ["maker", "trader"]
        self.agents = list(self.possible_agents)
        self.observation_spaces = {name: Box(-1.0, 1.0, (3,)) for name in self.agents}
        self.action_spaces = {name: Discrete(3) for name in self.agents}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        observations = {name: self.observation_spaces[name].sample() for name in self.agents}
        return MAResetResult(observations, {name: {} for name in self.agents})

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        observations = {name: self.observation_spaces[name].sample() for name in self.agents}
        flags = dict.fromkeys(self.agents, False)
        rewards = dict.fromkeys(self.agents, 0.0)
        return MAStepResult(observations, rewards, flags, dict(flags), {n: {} for n in self.agents})


def test_sampling_from_unseeded_spaces_is_reported_as_ignoring_the_seed() -> None:
    issues = check_env(UnseededSpaces())

    assert len(issues) == 1
    assert re.match(r"ERROR: reset\(seed=0\) is not deterministic, env ignores its", issues[0])
