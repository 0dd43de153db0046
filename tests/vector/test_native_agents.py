"""A native batch of markets with several agents gives what single envs give."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.core.result import equal_values
from sekai.envs import AgentConfig, MemberConfig
from sekai.error import InvalidActionError
from sekai.market import Costs, Execution, MarginAccount
from sekai.vector.native_envs import NativeAgentsVecEnv
from tests.envs.shared_markets import ASSETS, FEATURES, market

AGENTS = {
    "bold": AgentConfig(ruin=0.97, account=MarginAccount(leverage=2.0)),
    "wary": MemberConfig(features=("log_return",), lookback=2, ruin=0.9),
    "turned": MemberConfig(features=("volatility(rows=5)", "log_return"), initial_cash=3e5),
}

WHOLE = {**AGENTS, "wary": AgentConfig(ruin=0.9), "turned": AgentConfig(initial_cash=3e5)}
"""The same agents, who are all shown everything."""

COUNT = 4
STEPS = 40


def made(mode: Any, **settings: Any) -> Any:
    """Envs whose agents are ruined at different times, in short episodes."""
    usual: dict[str, Any] = {
        "data": market(volume=5_000.0),
        "features": FEATURES,
        "agents": AGENTS,
        "lookback": 4,
        "episode_rows": 9,
        "costs": Costs(impact=1.0),
        "execution": Execution(participation=0.1, unfilled="carry"),
        "shared_leverage": 1.2,
    }
    return sekai.make_vec("MultiPortfolio-v0", COUNT, mode, **{**usual, **settings})


def record(vec: Any, steps: int = STEPS) -> list[Any]:
    """All that the agents are given, with resets of some envs among it."""
    rng = np.random.default_rng(0)
    seen = [vec.reset(seed=5)]
    for number in range(steps):
        actions = {name: rng.dirichlet(np.ones(ASSETS + 1), COUNT) for name in vec.possible_agents}
        seen.append(vec.step(actions))
        if vec.vec.autoreset == "disabled" and seen[-1].episode_over.any():
            seen.append(vec.reset(ids=np.flatnonzero(seen[-1].episode_over)))
        if number == steps // 2:
            seen.append(vec.reset(seed=[9], ids=[1]))
    return seen


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"observation": "index", "agents": WHOLE, "reward_mode": "competitive"}],
)
def test_a_native_batch_gives_what_single_envs_give(autoreset: str, settings: Any) -> None:
    native, single = (made(mode, autoreset=autoreset, **settings) for mode in ("native", "sync"))
    assert isinstance(native, NativeAgentsVecEnv)

    with native, single:
        for given, wanted in zip(record(native), record(single), strict=True):
            for name in given.__dataclass_fields__:
                assert equal_values(_plain(getattr(given, name)), _plain(getattr(wanted, name))), (
                    name
                )


def _plain(value: Any) -> Any:
    return value if isinstance(value, (dict, np.ndarray)) else [dict(info) for info in value]


def test_some_agents_are_ruined_and_some_episodes_end_in_these_tests() -> None:
    with made("native") as vec:
        results = record(vec)[1:]

    steps = [result for result in results if hasattr(result, "rewards")]
    assert any(result.terminated["bold"].any() for result in steps)
    assert any(result.truncated["turned"].any() for result in steps)
    assert any(not result.alive["bold"].all() and result.alive["wary"].any() for result in steps)


def test_it_is_what_is_made_unless_something_else_is_asked_for() -> None:
    with made("auto") as vec:
        assert isinstance(vec, NativeAgentsVecEnv)


def test_a_single_agent_can_be_made_into_a_vector_env_too() -> None:
    with made("auto", agents=["only"]) as vec, made("sync", agents=["only"]) as single:
        assert record(vec, 12) == record(single, 12)


def test_a_time_limit_ends_episodes() -> None:
    with made("native", max_episode_steps=3) as vec, made("sync", max_episode_steps=3) as single:
        native, wanted = record(vec, 7), record(single, 7)

    for given, other in zip(native, wanted, strict=True):
        if hasattr(given, "episode_over"):
            assert np.array_equal(given.episode_over, other.episode_over)
            assert given.rewards.keys() == other.rewards.keys()
            assert equal_values(given.rewards, other.rewards)


def test_a_saved_state_continues_bit_for_bit() -> None:
    with made("native") as vec, made("native") as twin:
        vec.reset(seed=1)
        actions = dict.fromkeys(AGENTS, np.full((COUNT, ASSETS + 1), 0.25))
        for _ in range(5):
            vec.step(actions)

        twin.load_state_dict(vec.state_dict())

        for _ in range(12):
            assert vec.step(actions) == twin.step(actions)


def test_async_steps_give_what_steps_give() -> None:
    actions = dict.fromkeys(AGENTS, np.full((COUNT, ASSETS + 1), 0.25))

    async def played(vec: Any) -> Any:
        await vec.async_reset(seed=1)
        return await vec.async_step(actions)

    with made("native") as vec, made("native") as twin:
        vec.reset(seed=1)
        assert vec.step(actions) == asyncio.run(played(twin))


def test_actions_of_agents_that_are_gone_are_not_looked_at() -> None:
    rng = np.random.default_rng(0)
    with made("native") as vec:
        alive = vec.reset(seed=5).alive
        were_gone = False
        for _ in range(STEPS):
            actions = {name: rng.dirichlet(np.ones(ASSETS + 1), COUNT) for name in AGENTS}
            for name, rows in actions.items():
                rows[~alive[name]] = np.nan
                were_gone |= not alive[name].all()
            alive = vec.step(actions).alive

    assert were_gone


def test_agents_that_see_the_same_share_their_windows() -> None:
    with made("native", agents=3) as vec:
        seen = vec.reset(seed=1).observations

    assert np.shares_memory(seen["agent_0"]["windows"], seen["agent_2"]["windows"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bold": np.zeros((COUNT, 2))}, "actions of 'bold' must have shape"),
        ({"stranger": np.zeros((COUNT, 4))}, "unknown agents \\['stranger'\\]"),
        ({"wary": np.full((COUNT, 4), np.nan)}, "finite weights"),
    ],
)
def test_actions_that_do_not_fit_are_refused_and_nothing_moves(change: Any, words: str) -> None:
    with made("native") as vec:
        vec.reset(seed=1)
        actions = dict.fromkeys(AGENTS, np.full((COUNT, ASSETS + 1), 0.25))
        before = vec.state_dict()

        with pytest.raises(InvalidActionError, match=words):
            vec.step({**actions, **change})
        with pytest.raises(InvalidActionError, match="missing actions of"):
            vec.step({"bold": actions["bold"]})

        assert equal_values(vec.state_dict(), before)
