"""Many multi-agent envs: arrays per agent, and agents that die and return."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, equal_values
from sekai.error import ClosedError, InvalidActionError, WorkerError
from sekai.spaces import Box, Discrete, Space
from sekai.vector import MultiAgentVecEnv, env_seed
from tests.vector.worlds import BACKENDS
from tests.worlds import Duel, RandomWalk

AGENTS = ["fox", "hare", "owl"]


class Forest(MultiAgentEnv):
    """Three agents; the hare dies in its second step and returns two steps later.

    Actions: a number each; 9 of the owl harms the env.
    Rewards: the number of the step, times the agent's place, plus its action.
    Ends: after five steps, the fox terminated and the others truncated.
    """

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        spaces: dict[str, Space[Any]] = {
            "fox": Box(-np.inf, np.inf, shape=(2,), dtype=np.float64),
            "hare": Box(-np.inf, np.inf, shape=(1,), dtype=np.float32),
            "owl": Discrete(100),
        }
        self.observation_spaces = spaces
        self.action_spaces = {name: Discrete(10) for name in AGENTS}
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        self._set_rng(seed)
        self._steps = 0
        self.agents = list(AGENTS)
        return MAResetResult(self._shown(AGENTS), {name: {"begun": True} for name in AGENTS})

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        assert list(actions) == self.agents, "only those alive act"
        if actions.get("owl") == 9:
            raise ValueError("the forest burns")
        self._steps += 1
        acting = list(self.agents)
        rewards = {n: self._steps * AGENTS.index(n) + float(actions[n]) for n in acting}
        over = self._steps >= self.length
        terminated = {
            n: (over and n == "fox") or (n == "hare" and self._steps == 2) for n in acting
        }
        truncated = {n: over and n != "fox" for n in acting}
        self.agents = (
            [] if over else [n for n in AGENTS if n != "hare" or self._steps not in (2, 3)]
        )
        shown = self._shown(dict.fromkeys([*acting, *self.agents]))
        info: dict[str, dict[str, Any]] = {name: {"steps": self._steps} for name in acting}
        return MAStepResult(shown, rewards, terminated, truncated, info)

    def count_to(self, number: int) -> list[int]:
        """Counts, for `call`."""
        return list(range(number))

    def _shown(self, names: Any) -> dict[str, Any]:
        shown = {
            "fox": self.rng.normal(size=2),
            "hare": np.array([self._steps], np.float32),
            "owl": np.intp(self._steps),
        }
        return {name: shown[name] for name in names}


def build(mode: Any, env: Any = Forest, count: int = 2, **options: Any) -> MultiAgentVecEnv:
    more = {"num_workers": 2, "start_method": "fork"} if mode == "proc" else {}
    return MultiAgentVecEnv([env] * count, mode=mode, **more, **options)


def acts(**changes: Any) -> dict[str, Any]:
    return {name: np.zeros(2, np.int64) for name in AGENTS} | changes


@pytest.mark.parametrize("mode", BACKENDS)
def test_results_have_arrays_for_each_agent(mode: str) -> None:
    with build(mode) as vec:
        first = vec.reset(seed=1)
        result = vec.step(acts(owl=np.array([1, 2])))

        assert vec.possible_agents == AGENTS
        assert vec.action_spaces["owl"] == Discrete(10)
        assert first.observations["fox"].shape == (2, 2)
        assert first.observations["hare"].dtype == np.float32
        assert first.infos[0]["fox"] == {"begun": True}
        assert first.alive["owl"].tolist() == [True, True]
        assert result.rewards["owl"].tolist() == [3.0, 4.0]
        assert result.rewards["fox"].dtype == np.float64
        assert result.terminated["fox"].dtype == result.dones["fox"].dtype == np.bool_
        assert result.infos[1]["hare"] == {"steps": 1}
        alone = Forest()
        shown = alone.reset(seed=env_seed(1, 1)).observations["fox"]
        assert np.array_equal(first.observations["fox"][1], shown)


@pytest.mark.parametrize("mode", BACKENDS)
def test_agents_die_and_return(mode: str) -> None:
    with build(mode) as vec:
        vec.reset(seed=0)
        results = [vec.step(acts(hare=np.array([7, 7]))) for _ in range(4)]

    assert [bool(result.alive["hare"][0]) for result in results] == [True, False, False, True]
    assert [bool(result.terminated["hare"][0]) for result in results] == [False, True, False, False]
    assert [float(result.rewards["hare"][0]) for result in results] == [8, 9, 0, 0]
    assert [float(result.observations["hare"][0, 0]) for result in results] == [1, 2, 0, 4]
    assert not any(result.episode_over.any() for result in results)


@pytest.mark.parametrize("mode", BACKENDS)
def test_an_episode_is_over_when_no_agent_is_left(mode: str) -> None:
    with build(mode) as vec:
        vec.reset(seed=0)
        last = [vec.step(acts()) for _ in range(5)][-1]
        after = vec.step(acts())

    assert last.episode_over.tolist() == [True, True]
    assert last.terminated["fox"].all()
    assert last.truncated["owl"].all()
    assert not last.truncated["fox"].any()
    assert last.rewards["owl"].tolist() == [10, 10]
    assert last.observations["owl"].tolist() == [0, 0]
    assert last.alive["hare"].all()
    assert last.infos[0]["final_observation"]["owl"] == 5
    assert last.infos[0]["final_info"]["owl"] == {"steps": 5}
    assert last.infos[0]["owl"] == {"begun": True, "steps": 5}
    assert after.rewards["owl"].tolist() == [2, 2]


@pytest.mark.parametrize("mode", BACKENDS)
def test_an_agent_s_last_info_stands_beside_its_next_observation(mode: str) -> None:
    class Masked(Forest):
        def reset(self, **arguments: Any) -> MAResetResult:
            result = super().reset(**arguments)
            info: dict[str, Any] = {name: {"steps": 0} for name in AGENTS if name != "hare"}
            return MAResetResult(result.observations, info)

        def step(self, actions: Mapping[str, Any]) -> MAStepResult:
            result = super().step(actions)
            more = {"action_mask": [1], "pnl": 2.5}
            info: dict[str, Any] = {name: own | more for name, own in result.info.items()}
            return dataclasses.replace(result, info=info | {"market": "closed"})

    with build(mode, Masked) as vec:
        vec.reset(seed=0)
        info = [vec.step(acts()) for _ in range(5)][-1].infos[1]

    assert info["fox"] == {"steps": 0, "pnl": 2.5}
    assert info["hare"] == {"steps": 5, "pnl": 2.5}
    assert info["market"] == "closed"
    assert info["final_info"]["fox"] == {"steps": 5, "action_mask": [1], "pnl": 2.5}


@pytest.mark.parametrize("autoreset", ["next_step", "disabled"])
def test_the_other_modes_show_the_end_itself(autoreset: str) -> None:
    vec = build("sync", autoreset=autoreset)
    vec.reset(seed=0)
    last = [vec.step(acts()) for _ in range(5)][-1]
    assert last.observations["owl"].tolist() == [5, 5]
    assert last.rewards["owl"].tolist() == [10, 10]
    assert not last.alive["owl"].any()

    if autoreset == "disabled":
        assert vec.reset(ids=[1]).alive["hare"].tolist() == [True]
        vec.reset(ids=[0])
    else:
        begun = vec.step({})
        assert begun.alive["owl"].all()
        assert begun.rewards["owl"].tolist() == [0, 0]
    assert vec.step(acts()).observations["owl"].tolist() == [1, 1]


def test_all_backends_agree_and_states_cross() -> None:
    def record(vec: MultiAgentVecEnv) -> list[Any]:
        rng = np.random.default_rng(0)
        return [vec.step({name: rng.integers(0, 9, 2) for name in AGENTS}) for _ in range(12)]

    runs = []
    for mode in BACKENDS:
        with build(mode) as vec:
            vec.reset(seed=5)
            runs.append(record(vec))
            state = vec.state_dict()
            tail = record(vec)
            vec.load_state_dict(state)
            assert equal_values(record(vec), tail)
            runs[-1] += tail
    assert equal_values(runs[0], runs[1])
    assert equal_values(runs[0], runs[2])


def test_actions_are_needed_of_those_alive_alone() -> None:
    vec = build("sync")
    vec.reset(seed=0)
    with pytest.raises(InvalidActionError, match=r"'owl', which is alive in envs \[0, 1\]"):
        vec.step({"fox": np.zeros(2, np.int64), "hare": np.zeros(2, np.int64)})
    with pytest.raises(InvalidActionError, match="bear"):
        vec.step(acts(bear=np.zeros(2)))
    with pytest.raises(InvalidActionError, match="2 actions"):
        vec.step(acts(owl=np.zeros(3, np.int64)))
    vec.step(acts())
    vec.step(acts())

    without_hare = {"fox": np.zeros(2, np.int64), "owl": np.zeros(2, np.int64)}
    assert vec.step(without_hare).rewards["hare"].tolist() == [0, 0]


@pytest.mark.parametrize("mode", BACKENDS)
def test_an_env_that_fails_is_named_or_comes_back(mode: str) -> None:
    with build(mode) as vec:
        vec.reset(seed=0)
        with pytest.raises(WorkerError, match="env 1 .*the forest burns"):
            vec.step(acts(owl=np.array([0, 9])))
    with build(mode, on_error="restart") as vec:
        vec.reset(seed=0)
        vec.step(acts())
        result = vec.step(acts(owl=np.array([0, 9])))

    assert result.episode_over.tolist() == [False, True]
    assert result.truncated["owl"].tolist() == [False, True]
    assert result.rewards["owl"].tolist() == [4, 0]
    assert result.infos[1]["restart"].restarts == 1


def test_attributes_and_closing_work_as_for_single_agents() -> None:
    with build("sync", env=lambda: Forest(3)) as vec:
        assert vec.get_attr("length") == [3, 3]
        vec.set_attr("length", [4, 5], per_env=True)
        assert vec.get_attr("length") == [4, 5]
        assert vec.call("count_to", 3) == [[0, 1, 2]] * 2
        assert len(vec) == 2
        assert "fox" in repr(vec)
    assert vec.closed
    with pytest.raises(ClosedError):
        vec.reset()
    with pytest.raises(ValueError, match="mode must be one of"):
        build("elsewhere")
    with pytest.raises(WorkerError, match="expected a MultiAgentEnv, got <RandomWalk>"):
        build("sync", env=RandomWalk)


def test_multi_agent_vectors_work_in_a_running_loop() -> None:
    async def main() -> Any:
        vec = MultiAgentVecEnv([Duel] * 2, mode="async")
        await vec.async_reset(seed=0)
        return await vec.async_step({"north": np.zeros((2, 1)), "south": np.zeros(2, np.int64)})

    assert asyncio.run(main()).rewards["north"].shape == (2,)
