"""Settings that suit an env: agents learn there without being told how."""

from __future__ import annotations

from typing import Any

import pytest

from sekai.registry import spec
from sekai.training import A2C, PPO, Agent, PPOSettings
from sekai.training.agent_settings import BY_ENV, default_settings
from sekai.training.training_envs import as_vec_env, play
from sekai.vector.vec_env import VecEnv

KINDS: dict[str, type[Agent]] = {"PPOSettings": PPO, "A2CSettings": A2C}


@pytest.mark.parametrize("name", BY_ENV)
def test_defaults_are_of_envs_and_settings_that_exist(name: str) -> None:
    assert spec(name).id == name
    for kind, values in BY_ENV[name].items():
        found = default_settings(KINDS[kind].settings_type, name)
        assert found == default_settings(KINDS[kind].settings_type, spec(name))
        assert {key: getattr(found, key) for key in values if key != "policy"} == {
            key: value for key, value in values.items() if key != "policy"
        }


def test_other_envs_get_the_settings_of_the_algorithm() -> None:
    assert default_settings(PPOSettings, "Trading-v0") == PPOSettings()
    assert default_settings(PPOSettings, lambda: None) == PPOSettings()


def test_what_the_user_says_comes_first() -> None:
    agent = PPO("MarketMaking-v0", gamma=0.5, n_envs=2)
    assert agent.settings.gamma == 0.5
    assert agent.settings.policy.std_init == 0.2
    plain = PPO("MarketMaking-v0", settings=PPOSettings(n_envs=2))
    assert plain.settings.gamma == PPOSettings().gamma


def score(agent: Any, name: str) -> float:
    envs = as_vec_env(name, 64)
    assert isinstance(envs, VecEnv)
    return play(agent, envs, 64, 7).metrics("")["return"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_agents_learn_to_make_a_market(kind: type[Agent]) -> None:
    """Quotes at 2 bring 27.5, the best ones, at 2/3, about 60 without regard to risk."""
    assert score(kind("MarketMaking-v0", seed=1).fit(100_000), "MarketMaking-v0") > 45


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_agents_learn_to_work_an_order(kind: type[Agent]) -> None:
    """Half of what is left at each decision costs 8.8 units, the best schedule 3.2."""
    assert score(kind("OptimalExecution-v0", seed=1).fit(100_000), "OptimalExecution-v0") > -4.3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_portfolios_of_twenty_assets_and_a_market_of_orders_can_be_learnt_on(
    kind: type[Agent],
) -> None:
    for name in ("Portfolio-v0", "Trading-v0"):
        agent = kind(name, n_envs=4, n_steps=4)
        assert agent.fit(32).steps == 32
