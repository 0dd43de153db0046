"""Relation of the rewards of several agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.result import MAStepResult
from sekai.envs import AgentConfig
from tests.envs.shared_markets import crash, plan, play, several

STEPS = 15

AGENTS = {
    "returns": AgentConfig(reward="return"),
    "logs": AgentConfig(reward="log_return"),
    "careful": AgentConfig(reward={"log_return": 1.0, "drawdown_penalty": 0.5}),
    "rich": AgentConfig(initial_cash=1e6),
}


def played(mode: str, **settings: Any) -> list[MAStepResult]:
    """The same decisions, however they are rewarded."""
    return play(several(agents=AGENTS, reward_mode=mode, **settings), plan(STEPS, 4))


def test_rewards_are_the_agents_own_if_nothing_else_is_asked_for() -> None:
    for result in played("own"):
        for name in ("logs", "rich"):
            info = result.info[name]
            grown = info["equity"] / (info["equity"] - info["pnl"])
            assert result.rewards[name] == pytest.approx(np.log(grown), abs=1e-12)


def test_cooperating_agents_are_all_given_the_mean() -> None:
    for own, shared in zip(played("own"), played("cooperative"), strict=True):
        mean = np.mean(list(own.rewards.values()))
        assert len(set(shared.rewards.values())) == 1
        assert shared.rewards["logs"] == pytest.approx(mean, abs=1e-15)
        assert sum(shared.rewards.values()) == pytest.approx(sum(own.rewards.values()), abs=1e-14)


def test_competing_agents_are_given_what_is_above_the_mean_of_the_others() -> None:
    for own, against in zip(played("own"), played("competitive"), strict=True):
        for name in AGENTS:
            others = [reward for other, reward in own.rewards.items() if other != name]
            wanted = own.rewards[name] - np.mean(others)
            assert against.rewards[name] == pytest.approx(wanted, abs=1e-15)
        assert sum(against.rewards.values()) == pytest.approx(0.0, abs=1e-14)


def test_the_mode_of_rewards_changes_rewards_alone() -> None:
    for own, against in zip(played("own"), played("competitive"), strict=True):
        assert own.info == against.info
        assert own.rewards != against.rewards


@pytest.mark.parametrize("mode", ["cooperative", "competitive"])
def test_those_who_are_gone_no_longer_count(mode: str) -> None:
    agents = {name: AgentConfig(ruin=0.5) for name in "abc"}
    weights = np.tile([0.0, 0.0, 0.0, 1.0], (6, 3, 1))
    weights[:, 0] = [1.0, 0.0, 0.0, 0.0]
    weights[:, 1] = [0.5, 0.0, 0.0, 0.5]
    data = crash(at=13)

    own, mixed = (
        play(several(data, agents=agents, reward_mode=each), weights) for each in ("own", mode)
    )

    assert [list(result.rewards) for result in mixed] == [list("abc")] * 3 + [list("bc")] * 3
    last, ruined = mixed[2], own[2].rewards
    assert own[2].terminated == {"a": True, "b": False, "c": False}
    if mode == "cooperative":
        assert last.rewards["c"] == pytest.approx(np.mean(list(ruined.values())))
    else:
        assert last.rewards["c"] == pytest.approx(ruined["c"] - (ruined["a"] + ruined["b"]) / 2)
    for before, result in zip(own[3:], mixed[3:], strict=True):
        b, c = before.rewards["b"], before.rewards["c"]
        wanted = (b + c) / 2 if mode == "cooperative" else b - c
        assert result.rewards["b"] == pytest.approx(wanted, abs=1e-15)


def test_the_last_competitor_is_given_its_own_reward() -> None:
    agents = {"a": AgentConfig(ruin=0.5), "b": AgentConfig()}
    weights = np.tile([[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]], (6, 1, 1))
    data = crash(at=12)

    own, against = (
        play(several(data, agents=agents, reward_mode=mode), weights)
        for mode in ("own", "competitive")
    )

    assert own[1].terminated["a"]
    for before, result in zip(own[2:], against[2:], strict=True):
        assert result.rewards == before.rewards
