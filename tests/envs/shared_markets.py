"""Small markets that several agents trade in, and a way to play in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import MAStepResult
from sekai.data import MarketData
from sekai.envs import MultiPortfolio
from sekai.market import Costs, Execution

FEATURES = ("log_return", "volatility(5)")
FREE = Costs(proportional=0.0, half_spread=0.0, impact=0.0, borrow=0.0, financing=0.0)
"""Costs of zero."""

ASSETS = 3

Plan = NDArray[np.float64]
"""Weights by step, agent, and asset or cash."""


def market(rows: int = 60, seed: int = 0, volume: float = 1e6) -> MarketData:
    """Prices that walk about, with opens between closes."""
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(rng.normal(0.0, 0.02, (rows, ASSETS)).cumsum(axis=0))
    opens = close * np.exp(rng.normal(0.0, 0.005, (rows, ASSETS)))
    traded = volume * rng.uniform(0.5, 1.5, (rows, ASSETS))
    times = np.datetime64("2020-01-01") + np.arange(rows)
    values = np.stack([opens, close, traded], axis=2)
    return MarketData(times, ["A", "B", "C"], ["open", "close", "volume"], values)


def crash(rows: int = 40, at: int = 20, fall: float = 0.7) -> MarketData:
    """Flat prices, of which the first asset's falls in one row."""
    close = np.full((rows, ASSETS), 100.0)
    close[at:, 0] *= 1.0 - fall
    values = np.stack([close, close, np.full_like(close, 1e9)], axis=2)
    times = np.datetime64("2020-01-01") + np.arange(rows)
    return MarketData(times, ["A", "B", "C"], ["open", "close", "volume"], values)


def several(data: MarketData | None = None, **settings: Any) -> MultiPortfolio:
    """Agents in a small market, always from the same row, at no costs if not asked for."""
    usual: dict[str, Any] = {
        "lookback": 4,
        "starts": 10,
        "costs": FREE,
        "execution": Execution(smallest_trade=0.0),
    }
    return MultiPortfolio(data or market(), FEATURES, **{**usual, **settings})


def plan(steps: int, agents: int, seed: int = 0) -> Plan:
    """Random weights of everything."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(ASSETS + 1), (steps, agents))


def play(env: MultiPortfolio, weights: Plan, seed: int = 0) -> list[MAStepResult]:
    """All results of agents that follow a plan, in the order of their names."""
    env.reset(seed=seed)
    results = []
    for row in weights:
        if not env.agents:
            break
        places = {name: row[place] for place, name in enumerate(env.possible_agents)}
        results.append(env.step({name: places[name] for name in env.agents}))
    return results


def reported(results: list[MAStepResult], name: str, key: str) -> list[float]:
    """Infos of one agent, step by step."""
    return [result.info[name][key] for result in results if name in result.info]


def trades(env: MultiPortfolio) -> dict[str, NDArray[Any]]:
    """All trades of the one episode that was logged."""
    (log,) = env.batch.take_log()
    return {key: log[key] for key in ("row", "agent", "asset", "units", "price", "rate")}
