"""Settings that suit an env: agents learn there without being told how."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import sekai
from sekai.registry import spec
from sekai.training import A2C, PPO, SAC, Agent, PPOSettings, SACSettings
from sekai.training.defaults import default_settings, named_settings, tuned_settings
from sekai.training.training_envs import as_vec_env, play
from sekai.vector.vec_env import VecEnv

ALGORITHMS: tuple[type[Agent], ...] = (PPO, A2C, SAC)
NAMES = [(kind, name) for kind in ALGORITHMS for name in tuned_settings(kind.settings_type)]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_tuned_settings_are_of_envs_and_settings_that_exist(kind: type[Agent], name: str) -> None:
    settings = kind.settings_type

    assert spec(name).id == name
    assert default_settings(settings, name) == default_settings(settings, spec(name))
    assert default_settings(settings, name) == named_settings(settings, name) != settings()


def test_other_native_envs_get_the_settings_of_the_algorithm() -> None:
    assert default_settings(PPOSettings, "Trading-v0") == PPOSettings()
    vec = sekai.make_vec("Trading-v0", num_envs=32)
    assert default_settings(PPOSettings, vec) == PPOSettings(n_envs=32)


def test_python_envs_get_rollouts_of_few_steps_that_are_used_often() -> None:
    several = default_settings(PPOSettings, lambda: gymnasium.make("CartPole-v1"))
    one = default_settings(PPOSettings, gymnasium.make("CartPole-v1"))

    assert several == PPOSettings.from_dict(PPOSettings.python_env_settings)
    assert (one.n_envs, one.n_steps) == (1, several.n_steps * several.n_envs)
    assert one.batch_size == several.batch_size == 64
    continuous = default_settings(SACSettings, gymnasium.make("Pendulum-v1"))
    assert continuous.policy.net_arch == (256, 256)


def test_tuned_settings_are_taken_by_name() -> None:
    agent = PPO("Trading-v0", settings="MarketMaking-v0", n_envs=2, n_steps=4)

    assert agent.settings.gamma == 0.9
    with pytest.raises(ValueError, match=r"got 'MarketMaking-v1'; did you mean 'MarketMaking-v0'"):
        PPO("Trading-v0", settings="MarketMaking-v1")


@pytest.mark.timeout(300)
def test_ppo_learns_to_balance_a_pole_with_its_defaults() -> None:
    agent = PPO(lambda: gymnasium.make("CartPole-v1"), seed=0).fit(20_000)

    returns = play(agent, _vec(lambda: gymnasium.make("CartPole-v1")), 32, 7).returns
    assert returns.mean() > 300


def _vec(make: Any) -> VecEnv:
    envs = as_vec_env(make, 16)
    assert isinstance(envs, VecEnv)
    return envs


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
