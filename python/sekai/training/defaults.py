"""Settings that are known to suit an env."""

from __future__ import annotations

from typing import Any, TypeVar

from sekai.registry import EnvSpec
from sekai.training.agent_settings import AgentSettings

__all__ = ["default_settings"]

Own = TypeVar("Own", bound=AgentSettings)

MARKET_MAKING: dict[str, Any] = {
    # A fill pays at once, and what the price does to the inventory later is noise.
    "discount": 0.9,
    "learning_rate": 2e-3,
    "learning_rate_schedule": "linear",
    # Quotes reach from -1 to 5, and those across the mid price are dear.
    "policy": {"initial_spread": 0.2},
}

OPTIMAL_EXECUTION: dict[str, Any] = {
    # Nothing is discounted in an order of 25 decisions, and a rollout is a whole one.
    "discount": 1.0,
    "rollout_steps": 25,
    "learning_rate": 1e-3,
    "policy": {"initial_spread": 0.3},
}

PORTFOLIO: dict[str, Any] = {
    # What weights bring shows at once, or in the days that follow; the rest is noise.
    "discount": 0.9,
    "trace": 0.5,
    "learning_rate": 5e-3,
    "learning_rate_schedule": "linear",
    # Every weight that is tried is traded, and pays for it. What is worth knowing of an asset is
    # said in few numbers.
    "policy": {"initial_spread": 0.25, "width": 16},
}

BY_ENV: dict[str, dict[str, dict[str, Any]]] = {
    "MarketMaking-v0": {
        "PPOSettings": {**MARKET_MAKING, "rollout_steps": 16},
        "A2CSettings": {**MARKET_MAKING, "rollout_steps": 8},
    },
    "OptimalExecution-v0": {
        "PPOSettings": OPTIMAL_EXECUTION,
        "A2CSettings": {**OPTIMAL_EXECUTION, "rollout_steps": 5, "learning_rate": 2e-3},
    },
    "Portfolio-v0": {
        "PPOSettings": {**PORTFOLIO, "rollout_steps": 16, "clip": 0.3},
        "A2CSettings": PORTFOLIO,
    },
}
"""For each env, what the settings of each algorithm are instead of its own."""


def default_settings(kind: type[Own], env: Any) -> Own:
    """The settings of an algorithm for an env."""
    name = env.id if isinstance(env, EnvSpec) else env if isinstance(env, str) else ""
    return kind.from_dict(BY_ENV.get(name, {}).get(kind.__name__, {}))
