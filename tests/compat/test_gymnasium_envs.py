"""Envs give the same numbers on either side of the bridge to gymnasium."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from stable_baselines3.common.env_checker import check_env as check_stable_baselines3

import sekai
from sekai.compat import from_gymnasium, to_gymnasium
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import UnknownEnvError
from sekai.registry import EnvSpec
from sekai.spaces import Box, Dict, Discrete, MaskedBox, Simplex
from sekai.utils.checker import check_env
from sekai.wrappers import TimeLimit
from tests.worlds import Market, RandomWalk


class Allocation(Env[Any, Any]):
    """Weights over assets that come and go.

    Observation: a row of features for each listed asset, and the month.
    Action: weights.
    Reward: the weighted features.
    Terminates: never.
    Truncates: after 12 months.
    """

    def __init__(self) -> None:
        self.observation_space = Dict(
            {"assets": MaskedBox(-1.0, 1.0, (4, 2)), "month": Discrete(13)}
        )
        self.action_space = Simplex(4)
        self._month = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self._month = 0
        return ResetResult(self._observation(), {"options": dict(options or {})})

    def step(self, action: Any) -> StepResult[Any]:
        assert self.action_space.mismatch(action) is None
        self._month += 1
        observation = self._observation()
        reward = float(action @ observation["assets"]["values"][:, 0].astype(np.float64))
        return StepResult(observation, reward, False, self._month == 12, {})

    def _observation(self) -> dict[str, Any]:
        used = self.rng.random(4) < 0.7
        values = self.rng.uniform(-1, 1, (4, 2)).astype(np.float32)
        values[~used] = 0
        return {"assets": {"values": values, "mask": used}, "month": np.intp(self._month)}


class Bounded(RandomWalk):
    """A walk within bounds, which other frameworks' checkers recommend."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-100.0, 100.0, (2,), np.float32)


@pytest.mark.parametrize("make", [Bounded, Allocation], ids=lambda make: make.__name__)
def test_gymnasiums_own_check_passes(make: Any) -> None:
    check_gymnasium(to_gymnasium(make()), skip_render_check=True)


def test_stable_baselines3s_own_check_passes() -> None:
    check_stable_baselines3(to_gymnasium(Bounded()))


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4"])
def test_a_gymnasium_env_gives_the_same_trajectory_through_us(id: str) -> None:
    direct, ours = gymnasium.make(id), from_gymnasium(id)
    direct.action_space.seed(3)

    observation, info = direct.reset(seed=7)
    result = ours.reset(seed=7)

    assert str(result.observation) == str(observation)
    assert str(result.info) == str(info)
    for _ in range(300):
        action = direct.action_space.sample()
        observation, reward, terminated, truncated, info = direct.step(action)
        step = ours.step(action)
        assert np.array_equal(step.observation, observation)
        assert type(step.observation) is type(observation)
        assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
        assert str(step.info) == str(info)
        if step.done:
            observation, info = direct.reset()
            assert np.array_equal(ours.reset().observation, observation)


@pytest.mark.parametrize("make", [Bounded, Allocation, Market], ids=lambda make: make.__name__)
def test_our_env_gives_the_same_trajectory_through_gymnasium(make: Any) -> None:
    direct, exported = make(), to_gymnasium(make())
    direct.action_space.seed(3)

    result = direct.reset(seed=7)
    observation, info = exported.reset(seed=7)

    assert observation in exported.observation_space
    assert info == result.info
    for _ in range(60):
        action = direct.action_space.sample()
        step = direct.step(action)
        observation, reward, terminated, truncated, info = exported.step(action)
        assert observation in exported.observation_space
        assert (reward, terminated, truncated) == (step.reward, step.terminated, step.truncated)
        if step.done:
            direct.reset()
            exported.reset()


def test_there_and_back_is_the_same_env() -> None:
    twice, once = from_gymnasium(to_gymnasium(RandomWalk())), RandomWalk()

    assert twice.observation_space == once.observation_space
    assert twice.reset(seed=1) == once.reset(seed=1)
    assert twice.step(np.ones(2, np.float32)) == once.step(np.ones(2, np.float32))


def test_options_reach_the_env() -> None:
    _, info = to_gymnasium(Allocation()).reset(seed=0, options={"month": 3})

    assert info["options"] == {"month": 3}


def test_wrappers_of_gymnasium_work_around_our_env() -> None:
    env = gymnasium.wrappers.TimeLimit(to_gymnasium(Bounded()), 5)

    env.reset(seed=0)
    flags = [env.step(np.zeros(2, np.float32))[3] for _ in range(5)]

    assert flags == [False, False, False, False, True]


def test_attributes_are_found_on_both_sides() -> None:
    assert to_gymnasium(RandomWalk(noise=0.25)).get_wrapper_attr("noise") == 0.25
    assert from_gymnasium("CartPole-v1").gravity == 9.8


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="colour"):
        _ = to_gymnasium(RandomWalk()).colour
    with pytest.raises(AttributeError, match="colour"):
        _ = from_gymnasium("CartPole-v1").colour


class Painter:
    """Draws the position of a walk as one bright pixel."""

    closed = False

    def render(self, env: Any) -> Any:
        frame = np.zeros((8, 8, 3), np.uint8)
        frame[tuple(np.clip(env.unwrapped._position + 4, 0, 7).astype(int))] = 255
        return frame

    def close(self) -> None:
        self.closed = True


def test_a_renderer_gives_gymnasium_its_pictures() -> None:
    painter = Painter()
    env = to_gymnasium(Bounded(), renderer=painter)
    env.reset(seed=0)

    frame = env.render()
    env.close()

    assert env.render_mode == "rgb_array"
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert frame.sum() == 3 * 255
    assert painter.closed


def test_without_a_renderer_there_is_no_render_mode() -> None:
    env = to_gymnasium(Bounded())

    assert env.render_mode is None
    with pytest.raises(RuntimeError, match="renderer="):
        env.render()


def test_a_gymnasium_env_draws_through_us() -> None:
    env = from_gymnasium("FrozenLake-v1", render_mode="ansi")
    env.reset(seed=0)

    assert "FHFH" in env.render()


@pytest.mark.parametrize("id", ["CartPole-v1", "Taxi-v4"])
def test_a_gymnasium_env_continues_from_a_saved_state(id: str) -> None:
    env = from_gymnasium(id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(9)]
    env.reset(seed=5)
    env.step(actions[0])

    state = env.state_dict()
    first = [env.step(action) for action in actions[1:]]
    env.load_state_dict(state)
    second = [env.step(action) for action in actions[1:]]

    assert first == second


def test_our_check_finds_nothing_wrong_with_a_gymnasium_env() -> None:
    assert check_env(from_gymnasium("CartPole-v1")) == []


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a sekai\.Env"):
        to_gymnasium(gymnasium.make("CartPole-v1"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be a gymnasium\.Env"):
        from_gymnasium(RandomWalk())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes no further arguments"):
        from_gymnasium(gymnasium.make("CartPole-v1"), render_mode="ansi")


def test_any_gymnasium_env_is_made_by_its_name() -> None:
    env = sekai.make("gymnasium/CartPole-v1")

    result = env.reset(seed=7)

    direct, _ = gymnasium.make("CartPole-v1").reset(seed=7)
    assert np.array_equal(result.observation, direct)
    assert env.spec is not None
    assert env.spec.id == "gymnasium/CartPole-v1"
    assert env.spec.reward_threshold == 475.0


def test_a_gymnasium_env_is_made_again_from_its_spec() -> None:
    env = sekai.make("gymnasium/FrozenLake-v1", is_slippery=False)
    assert env.spec is not None

    rebuilt = EnvSpec.from_json(env.spec.to_json()).make()

    assert rebuilt.reset(seed=7).info == env.reset(seed=7).info
    assert rebuilt.step(2) == env.step(2)
    assert rebuilt.step(2).info["prob"] == 1


def test_an_unknown_gymnasium_id_is_told_with_gymnasiums_own_hint() -> None:
    with pytest.raises(UnknownEnvError, match="unknown gymnasium env 'CartPoll-v1'.*CartPole"):
        sekai.make("gymnasium/CartPoll-v1")


def test_limits_of_ours_go_around_limits_of_theirs() -> None:
    env = TimeLimit(from_gymnasium("Pendulum-v1"), 4)
    env.reset(seed=0)

    flags = [env.step(np.zeros(1, np.float32)).truncated for _ in range(4)]

    assert flags == [False, False, False, True]


def test_importing_the_bridges_imports_no_other_framework() -> None:
    code = (
        "import sys; import sekai.compat; others = {'gymnasium', 'pettingzoo', 'torch'}; "
        "print(sorted(others & set(sys.modules)))"
    )

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "function", "extra"),
    [
        ("gymnasium", "to_gymnasium", "gymnasium"),
        ("pettingzoo", "to_pettingzoo", "pettingzoo"),
        ("stable_baselines3", "to_stable_baselines3", "sb3"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    package: str, function: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import sekai.compat, sekai.error\n"
        f"try: sekai.compat.{function}\n"
        f"except sekai.error.MissingExtraError as error: print(error)\n"
    )

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"pip install '.[{extra}]'" in found.stdout
