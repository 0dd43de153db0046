"""Functions in Python that reward each of several agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.result import equal_values
from sekai.envs import AgentConfig, EpisodeLog, PortfolioState
from sekai.error import ResetRequired, StateError
from sekai.utils.checker import check_env
from tests.envs.agents_apart import (
    AGENTS,
    alike,
    alone,
    is_as_alone,
    many,
    member,
    play_on,
    recorded,
    together,
    weights,
)
from tests.envs.test_portfolio_rewards import Floats, Forgetful, Smooth, everything, growth

MODES = ["same_step", "next_step", "disabled"]
MIXED: dict[str, AgentConfig] = {
    "plain": member("plain", reward=everything),
    "bold": member("bold", reward=Smooth()),
    "rich": AGENTS["rich"],
}
"""A function, one that remembers, and terms."""


def test_each_agent_is_rewarded_by_its_own_function_as_it_is_alone() -> None:
    env = together(agents=MIXED, starts=15)
    singles = {name: alone(name, agents=MIXED, starts=15) for name in MIXED}
    rng = np.random.default_rng(0)
    for one in (env, *singles.values()):
        one.reset(seed=0)  # type: ignore[attr-defined]

    for _ in range(20):
        drawn = dict(zip(MIXED, weights(rng, 3), strict=True))
        alive = {name: drawn[name] for name in env.agents}
        result = env.step(alive)
        assert is_as_alone(result, {name: singles[name].step(drawn[name]) for name in alive})

    assert "bold" not in env.agents


def test_a_function_for_all_rewards_every_agent_with_a_memory_of_its_own() -> None:
    env = together(agents=3, reward=Smooth(), starts=15)
    env.reset(seed=0)
    growths: dict[str, list[float]] = {name: [] for name in env.agents}

    for result in play_on(env, 8):
        for name, past in growths.items():
            info = result.info[name]
            past.append(info["equity"] / (info["equity"] - info["pnl"]) - 1.0)
            assert result.rewards[name] == pytest.approx(np.mean(past), rel=1e-12)


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("reward_mode", ["own", "cooperative", "competitive"])
def test_a_vector_env_rewards_as_single_envs_do(autoreset: str, reward_mode: str) -> None:
    options = {"agents": MIXED, "episode_rows": 7, "reward_mode": reward_mode}
    native, single = (many(3, mode, autoreset=autoreset, **options) for mode in ("native", "sync"))

    for one, other in zip(recorded(native, 30), recorded(single, 30), strict=True):
        assert equal_values(one, other)


def test_the_function_is_given_the_envs_in_which_its_agent_took_part() -> None:
    seen: list[PortfolioState] = []

    def watched(state: PortfolioState) -> Floats:
        seen.append(state)
        return state.pnl

    vec = many(
        4, agents={**AGENTS, "bold": member("bold", reward=watched)},
        autoreset="disabled", episode_rows=30,
    )  # fmt: skip
    alive = vec.reset(seed=1).alive["bold"]
    rng, sizes = np.random.default_rng(0), set()
    for _ in range(20):
        shares = {name: weights(rng, 4) for name in AGENTS}
        result = vec.step(shares)
        state = seen.pop() if alive.any() else None
        if state is not None:
            assert state.ids.tolist() == np.flatnonzero(alive).tolist()
            assert np.array_equal(state.terminated, result.terminated["bold"][state.ids])
            assert np.array_equal(state.pnl, result.rewards["bold"][state.ids])
            sizes.add(len(state))
        alive = result.alive["bold"]

    assert len(sizes) > 1


@pytest.mark.parametrize("mode", ["cooperative", "competitive"])
def test_the_mode_of_rewards_goes_on_top_of_functions(mode: str) -> None:
    own, shared = (together(agents=MIXED, reward_mode=kind, starts=15) for kind in ("own", mode))
    own.reset(seed=0)
    shared.reset(seed=0)

    for one, other in zip(play_on(own, 20), play_on(shared, 20), strict=True):
        rewards = np.array(list(one.rewards.values()))
        others = (rewards.sum() - rewards) / max(len(rewards) - 1, 1)
        wanted = np.full(len(rewards), rewards.mean()) if mode == "cooperative" else (
            rewards - others if len(rewards) > 1 else rewards
        )  # fmt: skip
        np.testing.assert_allclose(list(other.rewards.values()), wanted, rtol=1e-12, atol=1e-15)
        assert one.info == other.info


@pytest.mark.parametrize("mode", ["own", "cooperative"])
def test_functions_of_returns_share_as_the_terms_of_the_core_do(mode: str) -> None:
    reported, own = (
        together(agents=3, reward=reward, reward_mode=mode, starts=15)
        for reward in ("return", growth)
    )
    reported.reset(seed=0)
    own.reset(seed=0)

    for one, other in zip(play_on(reported, 15), play_on(own, 15), strict=True):
        for name in one.rewards:
            assert other.rewards[name] == pytest.approx(one.rewards[name], rel=1e-9, abs=1e-12)


def test_logs_have_the_rewards_that_were_given() -> None:
    env = together(agents=MIXED, reward_mode="cooperative", record=True, starts=15)
    env.reset(seed=0)
    results = play_on(env, 20)

    logs = env.take_log()

    for name in MIXED:
        given = [result.rewards[name] for result in results if name in result.rewards]
        assert logs[name][0].steps.reward.tolist() == given


def test_logs_of_a_vector_env_have_them_too() -> None:
    vec = many(3, agents=MIXED, record=True, episode_rows=7)
    vec.reset(seed=5)
    rng = np.random.default_rng(0)
    given: dict[str, list[float]] = {name: [] for name in MIXED}
    alive = dict.fromkeys(MIXED, True)
    for _ in range(20):
        result = vec.step({name: weights(rng, 3) for name in MIXED})
        for name in MIXED:
            if alive[name]:
                given[name].append(result.rewards[name][1])
            alive[name] = bool(result.alive[name][1])

    logs = EpisodeLog.take_by_agent(vec.batch)

    for name in MIXED:
        own = [log.steps.reward for log in logs[name] if log.env == 1]
        assert np.concatenate(own).tolist() == given[name]


def test_a_restored_env_remembers_what_its_rewards_did() -> None:
    env, other = (together(agents=MIXED, starts=15) for _ in range(2))
    env.reset(seed=0)
    play_on(env, 4)

    other.load_state_dict(env.state_dict())

    for one, two in zip(play_on(env, 12, 1), play_on(other, 12, 1), strict=True):
        assert alike(one, two)


def test_a_restored_vector_env_remembers_too() -> None:
    vec, other = (many(3, agents=MIXED, episode_rows=7) for _ in range(2))
    vec.reset(seed=0)
    rng = np.random.default_rng(2)
    for _ in range(4):
        vec.step({name: weights(rng, 3) for name in MIXED})

    other.load_state_dict(vec.state_dict())

    for _ in range(12):
        actions = {name: weights(rng, 3) for name in MIXED}
        assert equal_values(vec.step(actions), other.step(actions))


def test_the_state_of_other_functions_is_refused_and_changes_nothing() -> None:
    env = together(agents=MIXED, starts=15)
    other = together(agents=3, reward=growth, starts=15)
    env.reset(seed=0)
    other.reset(seed=0)
    before = env.batch.state_dict()

    with pytest.raises(StateError):
        env.batch.load_state_dict(other.batch.state_dict())

    assert equal_values(env.batch.state_dict(), before)


def test_a_memory_that_is_refused_leaves_all_others_as_they_were() -> None:
    env = together(agents=3, reward=Smooth(), starts=15)
    env.reset(seed=0)
    play_on(env, 3)
    state = env.batch.state_dict()
    play_on(env, 3)
    before = env.batch.state_dict()
    state["reward"]["agent_2"] = {"sums": np.zeros(5), "counts": np.zeros(5)}

    with pytest.raises(StateError, match="expected sums"):
        env.batch.load_state_dict(state)

    assert equal_values(env.batch.state_dict(), before)


@pytest.mark.parametrize("kind", ["single", "vector"])
def test_a_reward_that_fails_names_its_agent_and_all_have_to_be_reset(kind: str) -> None:
    fails = [True]

    def sometimes(state: PortfolioState) -> Any:
        return np.nan * state.pnl if fails[0] else state.pnl

    agents = {**AGENTS, "rich": member("rich", reward=sometimes)}
    env: Any = together(agents=agents) if kind == "single" else many(2, agents=agents)
    shape = () if kind == "single" else (2,)
    actions = {name: weights(np.random.default_rng(0), *shape) for name in agents}
    env.reset(seed=0)

    with pytest.raises(ValueError, match=r"sometimes of 'rich' must be finite"):
        env.step(actions)
    fails[0] = False
    with pytest.raises(ResetRequired, match="failed after env 0 had moved"):
        env.step(actions)
    env.reset(seed=0)

    assert "rich" in env.step(actions).rewards


def test_the_checker_finds_nothing_to_report() -> None:
    assert check_env(together(agents=MIXED, episode_rows=10)) == []


def test_a_memory_that_cannot_be_saved_names_its_agent() -> None:
    env = together(agents={**AGENTS, "plain": member("plain", reward=Forgetful())})
    env.reset(seed=0)

    with pytest.raises(StateError, match=r"Forgetful of 'plain' is stateful.*add state_dict\(\)"):
        env.state_dict()
