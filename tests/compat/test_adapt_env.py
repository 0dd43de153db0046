"""Envs of other frameworks are recognised and converted in one place."""

from __future__ import annotations

import gymnasium

import sekai
from sekai.compat import adapt_env, is_foreign_env
from sekai.evaluation import evaluate
from tests.compat.test_pettingzoo import Auction


def test_an_env_of_sekai_is_returned_as_it_is() -> None:
    env = sekai.make("MarketMaking-v0")

    assert not is_foreign_env(env)
    assert adapt_env(env) is env


def test_an_env_of_gymnasium_is_converted() -> None:
    env = gymnasium.make("CartPole-v1")

    adapted = adapt_env(env)

    assert is_foreign_env(env)
    assert isinstance(adapted, sekai.Env)
    assert sekai.spaces.Discrete(2) == adapted.action_space


def test_a_parallel_env_of_pettingzoo_is_converted() -> None:
    env = Auction()

    assert is_foreign_env(env)
    assert isinstance(adapt_env(env), sekai.MultiAgentEnv)


def test_a_gymnasium_env_is_evaluated_under_its_own_id() -> None:
    evaluation = evaluate("random", gymnasium.make("CartPole-v1"), seeds=2)

    assert evaluation.env == "gymnasium/CartPole-v1"
