"""The config of trading: what it refuses, by name and before anything is built."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.envs import Trading, TradingConfig
from sekai.error import WorkerError
from sekai.market import AccountConfig, MarketConfig, SymbolConfig

BAD: list[tuple[str, Any]] = [
    ("max_ticks", 0),
    ("max_ticks", -1),
    ("max_ticks", 1.5),
    ("max_ticks", np.nan),
    ("max_ticks", None),
    ("max_ticks", "many"),
    ("order_size", 0),
    ("order_size", -30),
    ("order_size", 1_000_001),
    ("order_size", 2**40),
    ("action", "continuous"),
    ("action", None),
    ("normalize", 1),
    ("privileged", "no"),
    ("full55", None),
    ("agent", 0),
    ("reward", "profit"),
    ("reward", {}),
    ("reward", {"profit": 1.0}),
    ("reward", {"log_growth": np.inf}),
    ("reward", {"log_growth": np.nan}),
    ("reward", {"log_growth": "much"}),
    ("reward", (("log_growth", 1.0), ("log_growth", 2.0))),
    ("reward_memory", 0.0),
    ("reward_memory", 1.01),
    ("reward_memory", -0.5),
    ("reward_memory", np.nan),
    ("warm_up", 0),
    ("warm_up", 100_001),
    ("warm_up", -1),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_refused_by_name_before_anything_is_built(name: str, value: Any) -> None:
    for build in (
        lambda: TradingConfig(**{name: value}),
        lambda: Trading(**{name: value}),
        lambda: sekai.make("Trading-v0", **{name: value}),
        lambda: sekai.make_vec("Trading-v0", 2, "native", **{name: value}),
    ):
        with pytest.raises(ValueError, match=name):
            build()


def test_a_market_is_told_by_its_config() -> None:
    with pytest.raises(TypeError, match="^market must be a MarketConfig, got 'calm'"):
        TradingConfig(market="calm")  # type: ignore[arg-type]


def test_unknown_fields_are_refused_by_name() -> None:
    for build in (
        lambda: TradingConfig(episode_steps=9),  # type: ignore[call-arg]
        lambda: Trading(episode_steps=9),
        lambda: sekai.make_vec("Trading-v0", 2, "native", episode_steps=9),
    ):
        with pytest.raises(TypeError, match="episode_steps"):
            build()
    with pytest.raises(WorkerError, match="episode_steps"):
        sekai.make_vec("Trading-v0", 2, "sync", episode_steps=9)


def test_fields_of_the_market_may_be_given_beside_those_of_the_episode() -> None:
    env = Trading(max_ticks=9, regime="calm", symbols=2, account=AccountConfig(cash=5e4))
    market = MarketConfig(regime="calm", symbols=2, account=AccountConfig(cash=5e4))

    assert env.config == TradingConfig(max_ticks=9, market=market)
    assert env.reset(seed=0).info["cash"] == 5e4


def test_a_thing_said_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="either a config or its fields.* got both"):
        Trading(TradingConfig(), max_ticks=9)
    with pytest.raises(TypeError, match=r"either a market or its fields.* \['regime'\]"):
        Trading(market=MarketConfig(), regime="calm")


def test_a_market_without_a_learning_agent_cannot_be_traded_in() -> None:
    with pytest.raises(ValueError, match="agents of at least 1, got 0"):
        TradingConfig(market=MarketConfig(agents=0))


def test_configs_are_values() -> None:
    config = TradingConfig(
        market=MarketConfig(symbols=(SymbolConfig(price=20.0, sector=3),), regime="crisis"),
        reward={"log_growth": 2.0, "drawdown_penalty": 0.5},
        agent=True,
    )
    other = dataclasses.replace(config, agent=False)

    for copied in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert copied == config
        assert hash(copied) == hash(config)
        assert copied.settings() == config.settings()
    assert config != other
    assert config in {config}
    assert other not in {config}
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_ticks = 3  # type: ignore[misc]


def test_ways_to_name_the_same_reward_are_equal() -> None:
    terms = (("log_growth", 1.0),)

    assert TradingConfig(reward="log_growth") == TradingConfig(reward=terms)
    assert TradingConfig(reward={"log_growth": 1.0}).reward == terms
    assert TradingConfig().reward == (("equity_change", 1.0),)


def test_a_config_from_numpy_is_the_same() -> None:
    numbers: Any = {"max_ticks": np.int64(9), "reward_memory": np.float64(0.5)}

    assert TradingConfig(**numbers).settings() == (
        TradingConfig(max_ticks=9, reward_memory=0.5).settings()
    )


def test_the_defaults_are_the_documented_ones() -> None:
    config = TradingConfig()

    assert (config.max_ticks, config.order_size) == (10_000, 30)
    assert config.market.account.cash == 100_000.0
    assert config.market.account.taker_fee > 0
    assert config.market.population == "light"
    assert (config.normalize, config.privileged, config.full55, config.agent) == (
        *(False, False),
        *(False, False),
    )


def test_a_spec_remembers_how_its_env_was_made() -> None:
    env = sekai.make("Trading-v0", max_ticks=9, order_size=5)

    assert env.unwrapped.config == TradingConfig(max_ticks=9, order_size=5)  # type: ignore[attr-defined]
    assert env.spec is not None
    again = env.spec.make()
    assert again.unwrapped.config == env.unwrapped.config  # type: ignore[attr-defined]
