"""Built-in environments: importing this registers them and loads none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekai.registry import register

if TYPE_CHECKING:
    from sekai.envs.market_making import MarketMaking, MarketMakingConfig
    from sekai.envs.native_env import NativeEnv
    from sekai.envs.optimal_execution import (
        OptimalExecution,
        OptimalExecutionConfig,
        OptimalSchedule,
    )
    from sekai.envs.portfolio import Portfolio
    from sekai.envs.portfolio.batch import AccountReport
    from sekai.envs.portfolio.config import (
        AgentConfig,
        MemberConfig,
        MultiPortfolioConfig,
        PortfolioConfig,
    )
    from sekai.envs.portfolio.log import EpisodeLog
    from sekai.envs.portfolio.multi_portfolio import MultiPortfolio
    from sekai.envs.portfolio.reward import PortfolioState
    from sekai.envs.trading import Trading, TradingConfig

__all__ = [
    "AccountReport",
    "AgentConfig",
    "EpisodeLog",
    "MarketMaking",
    "MarketMakingConfig",
    "MemberConfig",
    "MultiPortfolio",
    "MultiPortfolioConfig",
    "NativeEnv",
    "OptimalExecution",
    "OptimalExecutionConfig",
    "OptimalSchedule",
    "Portfolio",
    "PortfolioConfig",
    "PortfolioState",
    "Trading",
    "TradingConfig",
]

# Native envs reject invalid actions and steps outside an episode themselves.
register(
    "MarketMaking-v0",
    "sekai.envs.market_making:MarketMaking",
    vector_entry_point="sekai.vector.native_envs:market_making",
    validate_actions=False,
    order_enforce=False,
)

register(
    "MultiPortfolio-v0",
    "sekai.envs.portfolio.multi_portfolio:MultiPortfolio",
    vector_entry_point="sekai.vector.native_envs:multi_portfolio",
    validate_actions=False,
    order_enforce=False,
)

# Registered here with the others; `compose` is a later stage, loaded when the env is made.
register(
    "BasketExecution-v0",
    "sekai.compose.orders.basket_execution:BasketExecution",
    vector_entry_point="sekai.compose.orders.basket_execution:basket_execution_vec",
    validate_actions=False,
    order_enforce=False,
)

register(
    "OrderExecution-v0",
    "sekai.compose.orders.order_execution:OrderExecution",
    vector_entry_point="sekai.compose.orders.order_execution:order_execution_vec",
    validate_actions=False,
    order_enforce=False,
)

register(
    "OptimalExecution-v0",
    "sekai.envs.optimal_execution:OptimalExecution",
    vector_entry_point="sekai.vector.native_envs:optimal_execution",
    validate_actions=False,
    order_enforce=False,
)

register(
    "Portfolio-v0",
    "sekai.envs.portfolio:Portfolio",
    vector_entry_point="sekai.vector.native_envs:portfolio",
    validate_actions=False,
    order_enforce=False,
)

register(
    "Trading-v0",
    "sekai.envs.trading:Trading",
    vector_entry_point="sekai.vector.native_envs:trading",
    validate_actions=False,
    order_enforce=False,
)

LAZY = {
    "AccountReport": "sekai.envs.portfolio.batch",
    "AgentConfig": "sekai.envs.portfolio.config",
    "EpisodeLog": "sekai.envs.portfolio.log",
    "MarketMaking": "sekai.envs.market_making",
    "MarketMakingConfig": "sekai.envs.market_making",
    "MemberConfig": "sekai.envs.portfolio.config",
    "MultiPortfolio": "sekai.envs.portfolio.multi_portfolio",
    "MultiPortfolioConfig": "sekai.envs.portfolio.config",
    "NativeEnv": "sekai.envs.native_env",
    "OptimalExecution": "sekai.envs.optimal_execution",
    "OptimalExecutionConfig": "sekai.envs.optimal_execution",
    "OptimalSchedule": "sekai.envs.optimal_execution",
    "Portfolio": "sekai.envs.portfolio",
    "PortfolioConfig": "sekai.envs.portfolio.config",
    "PortfolioState": "sekai.envs.portfolio.reward",
    "Trading": "sekai.envs.trading",
    "TradingConfig": "sekai.envs.trading",
}


def __getattr__(name: str) -> Any:
    """Import an environment at its first use."""
    if name not in LAZY:
        raise AttributeError(f"module 'sekai.envs' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted(__all__)
