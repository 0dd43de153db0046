"""Starts of portfolio episodes: what seeds choose from, and that the checker knows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.data import MarketData, simulate_gbm

DATA = simulate_gbm(assets=3, rows=60, seed=1)
OPTIONS: dict[str, Any] = {"features": ["log_return"], "lookback": 5}
WHOLE = 60 - 5


def with_one_trading_day() -> MarketData:
    tradable = np.zeros_like(DATA.tradable)
    tradable[58] = True
    return DATA.replace(tradable=tradable)


@pytest.mark.parametrize("env_id", ["Portfolio-v0", "MultiPortfolio-v0"])
@pytest.mark.parametrize(
    "settings",
    [
        {"episode_rows": None},
        {"episode_rows": WHOLE},
        {"episode_rows": 1000},
        {"episode_rows": 10, "starts": 40},
        {"episode_rows": 10, "starts": str(DATA.times[40])[:10]},
        {"episode_rows": None, "starts": "sequential"},
        {"episode_rows": 50, "starts": "sequential"},
        {"episode_rows": 10, "decisions": "trading_days", "data": with_one_trading_day()},
    ],
)
def test_an_env_with_one_start_says_that_it_draws_nothing(
    env_id: str, settings: dict[str, Any]
) -> None:
    env: Any = sekai.make(env_id, **{"data": DATA, **OPTIONS, **settings})

    assert env.metadata["stochastic"] is False
    assert sekai.check_env(env) == []


@pytest.mark.parametrize("env_id", ["Portfolio-v0", "MultiPortfolio-v0"])
@pytest.mark.parametrize(
    "settings",
    [
        {"episode_rows": WHOLE - 1},
        {"episode_rows": 20},
        {"episode_rows": 20, "starts": "sequential"},
    ],
)
def test_an_env_with_several_starts_draws_them(env_id: str, settings: dict[str, Any]) -> None:
    env: Any = sekai.make(env_id, data=DATA, **OPTIONS, **settings)

    assert env.metadata["stochastic"] is True
    assert sekai.check_env(env) == []


def test_what_is_drawn_is_no_part_of_a_state() -> None:
    one: Any = sekai.make("Portfolio-v0", data=DATA, episode_rows=None, **OPTIONS)
    one.reset(seed=0)

    assert "metadata" not in str(one.state_dict().keys())
    assert sekai.envs.Portfolio.metadata["stochastic"] is True
