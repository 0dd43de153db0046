"""Native envs with closed forms: working an order and making a market, and how PPO learns them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sekai
from sekai.envs import MarketMaking, OptimalExecutionConfig
from sekai.training import PPO, Agent
from tests.training.optima.task import Recipe, Task

__all__ = ["EXECUTION", "MARKET_MAKING"]

SEED = 2**20
"""Of the episodes that agents are judged by; no agent learns from it."""


def execution_share(agent: Agent, episodes: int = 1024) -> float:
    """The least objective as a share of the agent's: expected cost, and risk at what it costs."""
    config = OptimalExecutionConfig()
    vec: Any = sekai.make_vec("OptimalExecution-v0", episodes, "native", autoreset="disabled")
    seen = vec.reset(seed=SEED).observations
    for _ in range(config.episode_steps):
        seen = vec.step(agent.predict_batch(seen)).observations
    infos = vec.batch.infos()
    # Moves of the price cancel out on average, whatever is held: what was traded tells its cost.
    objective = infos["expected_cost"] + config.risk_aversion * infos["variance"]
    return float(config.model.objective() / objective.mean())


def making_share(agent: Agent, episodes: int = 8192) -> float:
    """The certainty equivalent of what the agent earns as a share of the best."""
    env = MarketMaking()
    env.reset(seed=0)
    vec = sekai.make_vec("MarketMaking-v0", episodes, autoreset="disabled")
    seen = vec.reset(seed=SEED).observations
    earned: NDArray[np.float64] = np.zeros(episodes)
    for _ in range(env.config.episode_steps):
        result = vec.step(agent.predict_batch(seen))
        earned += result.rewards
        seen = result.observations
    aversion = env.config.risk_aversion
    utility = np.exp(-aversion * (earned - earned.mean())).mean()
    return float((earned.mean() - math.log(utility) / aversion) / env.certainty_equivalent())


# Whether more is held is worth little at once and much later, but what the price does meanwhile is
# noise: looking twenty steps ahead and trusting the critic after two, of many envs at once.
MAKING: dict[str, Any] = {
    "gamma": 0.95,
    "gae_lambda": 0.5,
    "clip_range": 0.3,
    "n_steps": 16,
    "learning_rate": 5e-3,
    "learning_rate_schedule": "linear",
    "policy": {"net_arch": (32, 32), "activation": "silu", "std_init": 0.2},
}

# An order is nothing without its end: nothing is discounted, and a rollout is a whole one. Where
# little is left, little is at stake, and what the critic says of it is wrong by more than that: it
# is not asked.
WORKING: dict[str, Any] = {
    "gamma": 1.0,
    "gae_lambda": 1.0,
    "n_steps": 25,
    "n_epochs": 6,
    "batch_size": 4_267,
    "learning_rate": 3e-3,
    "learning_rate_schedule": "linear",
    "policy": {"net_arch": (32, 32), "activation": "silu", "std_init": 0.3},
}

EXECUTION = Task(
    name="execution",
    make=lambda envs: sekai.make_vec("OptimalExecution-v0", envs),
    judge=execution_share,
    recipes={PPO: Recipe(envs=512, steps=1_600_000, settings=WORKING)},
    enough=1.0 / 1.03,
)
MARKET_MAKING = Task(
    name="market-making",
    # What holding costs a maker of this aversion, in a market of this volatility.
    make=lambda envs: sekai.make_vec("MarketMaking-v0", envs, running_penalty=0.5 * 0.1 * 2.0**2),
    judge=making_share,
    recipes={PPO: Recipe(envs=512, steps=800_000, settings=MAKING)},
    enough=0.9,
)
