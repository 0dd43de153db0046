"""Configs of several agents, and refusals."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import sekai
from sekai.envs import AgentConfig, MemberConfig, MultiPortfolio, MultiPortfolioConfig
from sekai.market import Constraints, MarginAccount
from sekai.spaces import Box, Simplex
from tests.envs.shared_markets import market, several


def test_what_is_said_of_an_agent_goes_for_all_of_them() -> None:
    config = MultiPortfolioConfig(agents=["a", "b"], initial_cash=5.0, reward="return")

    assert list(config.members) == ["a", "b"]
    for member in config.members.values():
        assert member.initial_cash == 5.0
        assert member.reward == (("return", 1.0),)


def test_each_agent_can_have_a_config_of_its_own() -> None:
    agents = {
        "rich": AgentConfig(initial_cash=1e6),
        "short": AgentConfig(
            account=MarginAccount(leverage=1.5), constraints=Constraints(long_short=True)
        ),
    }
    env = several(agents=agents)

    infos = env.reset(seed=0).info

    assert infos["rich"]["cash"] == 1e6
    assert infos["short"]["cash"] == 1e5
    assert env.action_spaces["rich"] == Simplex(4)
    short = env.action_spaces["short"]
    assert isinstance(short, Box)
    assert short.low[0] == -1.5


def test_a_config_can_be_replaced_compared_and_pickled() -> None:
    config = MultiPortfolioConfig(agents={"a": MemberConfig(lookback=3)}, reward_mode="competitive")

    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, lookback=5).members == config.members
    assert len(dataclasses.replace(config, agents=5).members) == 5
    assert hash(config) == hash(dataclasses.replace(config))


def test_an_env_is_built_from_a_config_or_its_fields_and_not_both() -> None:
    config = MultiPortfolioConfig(agents=2, lookback=4)

    assert MultiPortfolio(market(), ["log_return"], config).config is config
    with pytest.raises(TypeError, match="got both: MultiPortfolioConfig and \\['lookback'\\]"):
        MultiPortfolio(market(), ["log_return"], config, lookback=4)


def test_the_registered_env_remembers_how_it_was_made() -> None:
    env: Any = sekai.make("MultiPortfolio-v0", agents={"a": AgentConfig(ruin=0.3)}, lookback=5)
    again: Any = sekai.make(sekai.registry.EnvSpec.from_json(env.spec.to_json()))

    assert again.config == env.config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"agents": 0}, "agents must be from 1"),
        ({"agents": True}, "agents must be from 1"),
        ({"agents": []}, "at least one, each with a name"),
        ({"agents": ["a", ""]}, "each with a name"),
        ({"agents": ["a", "a"]}, "different names"),
        ({"agents": "abc"}, "got the string 'abc'"),
        (
            {"agents": {"a": AgentConfig()}, "initial_cash": 5.0},
            r"\['initial_cash'\] would not be used",
        ),
        ({"agents": {"a": MemberConfig(lookback=31)}}, "lookback of 'a' must be from 1 to .* 30"),
        ({"agents": {"a": MemberConfig(lookback=0)}}, "lookback of 'a' must be from 1"),
        ({"agents": {"a": MemberConfig(features=())}}, "features of 'a' must be at least one"),
        (
            {"agents": {"a": MemberConfig(lookback=2)}, "observation": "index"},
            "'a' has its own lookback or features",
        ),
        ({"observation": "all"}, "observation must be 'window' or 'index'"),
    ],
)
def test_configs_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MultiPortfolioConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reward_mode": "friendly"}, "reward_mode"),
        ({"shared_leverage": 0.0}, "shared_leverage"),
        ({"lookback": 0}, "lookback"),
        ({"agents": {"a": AgentConfig(), "b": AgentConfig(ruin=1.0)}}, "ruin"),
        ({"agents": {"a": MemberConfig(features=("beta",))}}, "features of 'a': unknown feature"),
    ],
)
def test_settings_that_no_episode_could_have_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        several(**settings)


def test_what_is_no_config_of_an_agent_is_refused() -> None:
    agents: Any = {"a": {"initial_cash": 5.0}}
    with pytest.raises(TypeError, match="must be an AgentConfig"):
        MultiPortfolioConfig(agents=agents)
