"""Envs of several agents give the same numbers on either side of the bridge to PettingZoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as theirs
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]
from pettingzoo.test import parallel_api_test  # type: ignore[import-untyped]
from pettingzoo.test.example_envs import (  # type: ignore[import-untyped]
    generated_agents_env_v0,
    generated_agents_parallel_v0,
)

from sekai.compat import from_pettingzoo, to_pettingzoo
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.spaces import Box, Discrete, Simplex
from sekai.utils.checker import check_env
from sekai.wrappers import MultiAgentOrderEnforcing
from tests.worlds import Duel, RandomWalk


class Leaving(MultiAgentEnv):
    """Agents leave one after another.

    Observation: how many steps are left.
    Action: weights, or one of three.
    Reward: always one.
    Terminates: agent i after i + 2 steps.
    Truncates: never.
    """

    def __init__(self) -> None:
        self.possible_agents = ["a", "b", "c"]
        self.agents: list[str] = []
        self.observation_spaces = {name: Box(0.0, 9.0, (1,)) for name in self.possible_agents}
        self.action_spaces = {"a": Simplex(3), "b": Discrete(3), "c": Discrete(3, start=1)}
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        self._set_rng(seed)
        self._steps = 0
        self.agents = list(self.possible_agents)
        return MAResetResult(self._observations(), {name: {} for name in self.agents})

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        for name, action in actions.items():
            assert self.action_spaces[name].mismatch(action) is None
        self._steps += 1
        acting = list(self.agents)
        out = {name: self._steps >= 2 + self.possible_agents.index(name) for name in acting}
        result = MAStepResult(
            self._observations(),
            dict.fromkeys(acting, 1.0),
            out,
            dict.fromkeys(acting, False),
            {name: {} for name in acting},
        )
        self.agents = [name for name in acting if not out[name]]
        return result

    def _observations(self) -> dict[str, Any]:
        noise = self.rng.random()
        return {name: np.full(1, self._steps + noise, np.float32) for name in self.agents}


@pytest.mark.parametrize("make", [Duel, Leaving], ids=lambda make: make.__name__)
def test_pettingzoos_own_test_passes(make: Any, capsys: Any) -> None:
    parallel_api_test(to_pettingzoo(make()), num_cycles=50)

    assert "Passed" in capsys.readouterr().out


def test_pettingzoos_own_test_passes_through_our_wrappers() -> None:
    parallel_api_test(to_pettingzoo(MultiAgentOrderEnforcing(Leaving())), num_cycles=50)


class Staying(Leaving):
    """Tells who is out, and does not remove them from `agents`."""

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        before = list(self.agents)
        result = super().step(actions)
        self.agents = before
        return result


def test_who_is_out_leaves_whether_or_not_the_env_removes_them() -> None:
    exported = to_pettingzoo(Staying())
    exported.reset(seed=0)

    for _ in range(2):
        exported.step({agent: exported.action_space(agent).sample() for agent in exported.agents})

    assert exported.agents == ["b", "c"]


def test_our_env_gives_the_same_trajectory_through_pettingzoo() -> None:
    direct, exported = Duel(), to_pettingzoo(Duel())

    result = direct.reset(seed=3)
    observations, infos = exported.reset(seed=3)

    assert str(observations) == str(result.observations)
    assert infos == result.info
    for _ in range(10):
        actions = {agent: exported.action_space(agent).sample() for agent in exported.agents}
        step = direct.step(actions)
        observations, rewards, terminated, truncated, infos = exported.step(actions)
        assert str(observations) == str(step.observations)
        assert (rewards, terminated, truncated) == (step.rewards, step.terminated, step.truncated)
        assert exported.agents == direct.agents


class Auction(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """An env written for PettingZoo: bidders drop out at random, and there is a common info."""

    metadata = {"name": "auction"}  # noqa: RUF012 - the form PettingZoo asks for

    def __init__(self) -> None:
        self.possible_agents = ["anna", "boris", "carla"]
        self.agents: list[str] = []
        self._seen = np.zeros(2, np.float32)
        self._spaces = {name: theirs.Box(0.0, 1.0, (2,)) for name in self.possible_agents}
        self._actions = {name: theirs.Discrete(4, start=1) for name in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self._spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None or not self.agents:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        return self._observed(), {**{name: {} for name in self.agents}, "common": {"lot": 1}}

    def step(self, actions: dict[str, Any]) -> Any:
        acting = list(self.agents)
        out = {name: bool(self._rng.random() < 0.2) for name in acting}
        rewards = {name: np.float32(actions[name]) for name in acting}
        observations = self._observed()
        self.agents = [name for name in acting if not out[name]]
        infos = {name: {"bid": int(actions[name])} for name in acting}
        return observations, rewards, out, dict.fromkeys(acting, False), infos

    def _observed(self) -> dict[str, Any]:
        # One array for all, written over at every step: what a careless env does.
        self._seen[:] = self._rng.random(2)
        return dict.fromkeys(self.agents, self._seen)


def test_a_pettingzoo_env_gives_the_same_trajectory_through_us() -> None:
    direct, ours = Auction(), from_pettingzoo(Auction())

    observations, _ = direct.reset(seed=3)
    result = ours.reset(seed=3)

    assert str(result.observations) == str(observations)
    assert set(result.info) == {"anna", "boris", "carla"}
    while direct.agents:
        actions = {agent: np.int64(2) for agent in direct.agents}
        observations, rewards, terminated, truncated, infos = direct.step(actions)
        step = ours.step(actions)
        assert str(step.observations) == str(observations)
        assert (step.rewards, step.terminated, step.truncated) == (rewards, terminated, truncated)
        assert step.info == infos
        assert ours.agents == direct.agents


def test_results_of_a_pettingzoo_env_are_not_written_over() -> None:
    env = from_pettingzoo(Auction())
    first = env.reset(seed=0).observations["anna"]
    before = first.copy()

    env.step({agent: np.int64(1) for agent in env.agents})

    assert np.array_equal(first, before)


def test_there_and_back_is_the_same_env() -> None:
    twice, once = from_pettingzoo(to_pettingzoo(Duel())), Duel()

    assert twice.possible_agents == once.possible_agents
    assert twice.observation_spaces == once.observation_spaces
    assert twice.reset(seed=1) == once.reset(seed=1)
    actions = {"north": np.zeros(1), "south": np.intp(1)}
    assert twice.step(actions) == once.step(actions)


def test_our_check_finds_nothing_wrong_with_what_comes_back() -> None:
    assert check_env(from_pettingzoo(to_pettingzoo(Leaving()))) == []


def test_a_restored_env_continues_where_it_was() -> None:
    env = from_pettingzoo(to_pettingzoo(Duel()))
    env.reset(seed=0)
    actions = {"north": np.zeros(1), "south": np.intp(1)}
    state = env.state_dict()

    first = [env.step(actions) for _ in range(5)]
    env.load_state_dict(state)
    second = [env.step(actions) for _ in range(5)]

    assert first == second


def test_what_is_no_parallel_env_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a sekai MultiAgentEnv"):
        to_pettingzoo(RandomWalk())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ParallelEnv, got <"):
        from_pettingzoo(Duel())
    with pytest.raises(TypeError, match="aec_to_parallel"):
        from_pettingzoo(generated_agents_env_v0.env())
    with pytest.raises(TypeError, match="possible_agents"):
        from_pettingzoo(generated_agents_parallel_v0.parallel_env())


def test_without_a_renderer_there_is_nothing_to_draw_with() -> None:
    with pytest.raises(RuntimeError, match="renderer="):
        to_pettingzoo(Duel()).render()
