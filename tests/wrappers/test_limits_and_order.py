from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import ClosedError, InvalidActionError, ResetRequired
from sekai.wrappers import (
    AutoReset,
    MultiAgentOrderEnforcing,
    MultiAgentTimeLimit,
    MultiAgentValidateAction,
    OrderEnforcing,
    RecordEpisodeStatistics,
    TimeLimit,
    ValidateAction,
)
from tests.worlds import Duel, Market, RandomWalk

ACTION = np.zeros(2, dtype=np.float32)
DUEL_ACTIONS = {"north": np.zeros(1), "south": np.intp(1)}


def test_a_time_limit_truncates_at_its_last_step() -> None:
    env = TimeLimit(RandomWalk(noise=0.0), 3)
    env.reset(seed=0)

    assert [env.step(ACTION).truncated for _ in range(3)] == [False, False, True]


def test_a_time_limit_counts_anew_after_a_reset() -> None:
    env = TimeLimit(RandomWalk(noise=0.0), 2)
    env.reset(seed=0)
    env.step(ACTION)

    env.reset()

    assert not env.step(ACTION).truncated


@pytest.mark.parametrize("limit", [0, -3, 1.5])
def test_a_time_limit_below_one_step_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"at least 1, got {limit}"):
        TimeLimit(RandomWalk(), limit)


def test_auto_reset_shows_the_next_episode_and_keeps_the_end_of_the_last() -> None:
    env, plain = AutoReset(TimeLimit(Market(), 2)), TimeLimit(Market(), 2)
    for each in (env, plain):
        each.reset(seed=7)
        each.step(np.intp(2))
    last = plain.step(np.intp(2))
    first = plain.reset()

    result = env.step(np.intp(2))

    assert (result.reward, result.truncated) == (last.reward, True)
    assert np.array_equal(result.observation["prices"], first.observation["prices"])
    assert np.array_equal(result.info["final_observation"]["prices"], last.observation["prices"])
    assert result.info["final_info"] == last.info


def test_auto_reset_leaves_a_running_episode_alone() -> None:
    env, plain = AutoReset(Market()), Market()

    assert env.reset(seed=1) == plain.reset(seed=1)
    assert env.step(2) == plain.step(2)


def test_a_step_before_reset_is_refused() -> None:
    env = OrderEnforcing(RandomWalk())

    with pytest.raises(ResetRequired, match=r"before reset\(\)"):
        env.step(ACTION)


def test_a_step_after_the_end_is_refused_and_moves_nothing() -> None:
    env = OrderEnforcing(TimeLimit(RandomWalk(), 1))
    env.reset(seed=0)
    env.step(ACTION)
    before = env.env.state_dict()

    with pytest.raises(ResetRequired, match="episode is over"):
        env.step(ACTION)

    after = env.env.state_dict()
    assert after["env"]["generators"] == before["env"]["generators"]
    env.reset()
    env.step(ACTION)


def test_nothing_works_after_close() -> None:
    env = OrderEnforcing(RandomWalk())
    env.reset(seed=0)
    env.close()
    env.close()

    with pytest.raises(ClosedError, match="create a new one"):
        env.step(ACTION)
    with pytest.raises(ClosedError, match="create a new one"):
        env.reset()
    with pytest.raises(ClosedError, match="create a new one"):
        asyncio.run(env.async_reset())


def test_the_call_order_is_part_of_the_state() -> None:
    env = OrderEnforcing(TimeLimit(RandomWalk(), 2))
    env.reset(seed=0)
    state = env.state_dict()
    env.step(ACTION)
    env.step(ACTION)

    env.load_state_dict(state)

    assert not env.step(ACTION).done


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (np.zeros(3, np.float32), "shape"),
        (np.zeros(2, np.complex64), "dtype|float32"),
        (np.array([0.0, np.nan], np.float32), "NaN|nan"),
        (np.array([0.0, 1.5], np.float32), "1.5"),
        ("buy", "array|buy"),
        (None, "None"),
    ],
)
def test_a_bad_action_is_refused_and_moves_nothing(action: Any, reason: str) -> None:
    env: Env[Any, Any] = ValidateAction(RandomWalk())
    env.reset(seed=0)
    before = env.unwrapped.state_dict()

    with pytest.raises(InvalidActionError, match=reason):
        env.step(action)

    assert env.unwrapped.state_dict()["generators"] == before["generators"]


def test_a_time_limit_of_several_agents_truncates_them_all() -> None:
    env = MultiAgentTimeLimit(Duel(length=10), 2)
    env.reset(seed=0)
    env.step(DUEL_ACTIONS)

    result = env.step(DUEL_ACTIONS)

    assert result.truncated == {"north": True, "south": True}
    assert env.agents == []
    assert env.num_agents == 0


def test_call_order_is_enforced_for_several_agents() -> None:
    env = MultiAgentOrderEnforcing(Duel(length=1))
    with pytest.raises(ResetRequired):
        env.step(DUEL_ACTIONS)
    env.reset(seed=0)
    env.step(DUEL_ACTIONS)
    with pytest.raises(ResetRequired, match="over"):
        env.step(DUEL_ACTIONS)
    env.close()
    with pytest.raises(ClosedError):
        env.reset()


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ({"north": np.zeros(1)}, "'north', 'south'.*got.*'north'"),
        ({"north": np.zeros(1), "south": np.intp(9)}, "'south' is not in"),
    ],
)
def test_a_bad_action_of_an_agent_is_refused(actions: Any, reason: str) -> None:
    env = MultiAgentValidateAction(Duel())
    env.reset(seed=0)

    with pytest.raises(InvalidActionError, match=reason):
        env.step(actions)


def test_multi_agent_layers_agree_on_both_paths_and_restore() -> None:
    def make() -> MultiAgentTimeLimit:
        return MultiAgentTimeLimit(
            MultiAgentOrderEnforcing(MultiAgentValidateAction(Duel(length=6))), 4
        )

    async def episode(env: MultiAgentTimeLimit) -> list[Any]:
        first = await env.async_reset(seed=5)
        return [first, *[await env.async_step(DUEL_ACTIONS) for _ in range(4)]]

    env = make()
    expected: list[Any] = [env.reset(seed=5), env.step(DUEL_ACTIONS)]
    state = env.state_dict()
    rest = [env.step(DUEL_ACTIONS) for _ in range(3)]
    env.load_state_dict(state)

    assert [env.step(DUEL_ACTIONS) for _ in range(3)] == rest
    assert asyncio.run(episode(make())) == expected + rest


def test_statistics_pass_through_an_outer_auto_reset() -> None:
    env = AutoReset(RecordEpisodeStatistics(TimeLimit(Market(), 3)))
    env.reset(seed=0)

    results = [env.step(np.intp(2)) for _ in range(3)]

    episode = results[-1].info["episode"]
    assert episode.episode_return == pytest.approx(sum(result.reward for result in results))
    assert results[-1].info["final_info"]["episode"] is episode


def test_auto_reset_keeps_the_finishing_step_s_info_beside_the_reset_s() -> None:
    class Telling(RandomWalk):
        def reset(self, **arguments: Any) -> Any:
            result = super().reset(**arguments)
            return type(result)(result.observation, {"moment": "reset", "begun": True})

        def step(self, action: Any) -> Any:
            result = super().step(action)
            info = {"moment": "step", "pnl": 1.5, "action_mask": [1]}
            return type(result)(result.observation, 0.0, False, True, info)

    env = AutoReset(Telling())
    env.reset(seed=0)

    info = env.step(ACTION).info

    last = {"moment": "step", "pnl": 1.5, "action_mask": [1]}
    assert info.pop("final_observation").shape == (2,)
    assert info == {"moment": "reset", "begun": True, "pnl": 1.5, "final_info": last}


def test_auto_reset_keeps_an_observation_that_the_reset_writes_over() -> None:
    class Reusing(RandomWalk):
        shown = np.zeros(2, dtype=np.float32)

        def reset(self, **arguments: Any) -> Any:
            self.shown[:] = 7
            return ResetResult(self.shown, {})

        def step(self, action: Any) -> Any:
            self.shown[:] = 3
            return StepResult(self.shown, 0.0, True, False, {})

    env = AutoReset(Reusing())
    env.reset(seed=0)

    result = env.step(ACTION)

    assert result.observation.tolist() == [7, 7]
    assert result.info["final_observation"].tolist() == [3, 3]


def test_an_auto_reset_around_another_resets_once() -> None:
    env, plain = AutoReset(AutoReset(TimeLimit(Market(), 2))), AutoReset(TimeLimit(Market(), 2))
    for each in (env, plain):
        each.reset(seed=3)

    assert [env.step(2) for _ in range(5)] == [plain.step(2) for _ in range(5)]


def test_layers_outside_of_an_auto_reset_follow_it_into_the_next_episode() -> None:
    env = OrderEnforcing(TimeLimit(AutoReset(TimeLimit(Market(), 2)), 3))
    env.reset(seed=0)

    flags = [env.step(np.intp(2)).truncated for _ in range(6)]

    assert flags == [False, True, False, True, False, True]


def test_an_episode_that_ends_by_itself_at_the_limit_is_not_called_truncated() -> None:
    class Short(RandomWalk):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            return type(result)(result.observation, 0.0, True, False, {})

    env = TimeLimit(Short(), 1)
    env.reset(seed=0)

    result = env.step(ACTION)

    assert (result.terminated, result.truncated) == (True, False)


def test_a_closed_env_cannot_be_opened_by_a_state() -> None:
    env = OrderEnforcing(RandomWalk())
    env.reset(seed=0)
    state = env.state_dict()
    env.close()

    with pytest.raises(ClosedError):
        env.load_state_dict(state)
