"""Trading environment: sell, hold or buy, or set weights, in a simulated order-book market."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import TradingBatch, TradingWeightsBatch, trading_defaults
from sekai.config.checked import CheckedConfig
from sekai.envs.native_env import NativeEnv, RewardTerms, resolve_config, reward_terms
from sekai.market.market import MarketConfig, to_json
from sekai.spaces import Box, Discrete, MultiDiscrete, Space

_DEFAULTS: dict[str, Any] = json.loads(trading_defaults())


REWARD_TERMS = (
    "equity_change",
    "log_growth",
    "volatility_penalty",
    "transaction_cost",
    "drawdown_penalty",
    "differential_sharpe",
    "terminal_sharpe",
)
"""Reward terms of the Rust core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingConfig(CheckedConfig):
    """Settings of `Trading`: market, features, actions and reward."""

    market: MarketConfig = field(default_factory=MarketConfig)
    """Simulated market."""

    max_ticks: int = _DEFAULTS["max_ticks"]
    """Decisions after which an episode is truncated."""

    order_size: int = _DEFAULTS["order_size"]
    """Lots of an order."""

    action: Literal["discrete", "weights"] = "discrete"
    """Sell, hold or buy each symbol, or its target weight."""

    normalize: bool = _DEFAULTS["features"]["normalize"]
    """Divide features in units of price by the mid price."""

    privileged: bool = _DEFAULTS["features"]["privileged"]
    """Show features of the fair value, which no trader observes; otherwise they are neutral."""

    full55: bool = _DEFAULTS["features"]["full55"]
    """Show the net order flow as the 55th feature."""

    agent: bool = _DEFAULTS["agent"]
    """Show the agent's own position, profit, cash and time left."""

    reward: str | Mapping[str, float] | RewardTerms = tuple(map(tuple, _DEFAULTS["reward"]))
    """Reward terms with their weights, or a single term: `equity_change`, `log_growth`,
    `volatility_penalty`, `transaction_cost`, `drawdown_penalty`, `differential_sharpe`,
    `terminal_sharpe`."""

    reward_memory: float = _DEFAULTS["reward_memory"]
    """Decay rate of the moving averages of volatility and differential Sharpe ratio, 0 to 1."""

    warm_up: int = _DEFAULTS["warm_up"]
    """Ticks of the market before an episode begins."""

    def __post_init__(self) -> None:
        if self.action not in ("discrete", "weights"):
            raise ValueError(f"action must be 'discrete' or 'weights', got {self.action!r}")
        if not isinstance(self.market, MarketConfig):
            raise TypeError(f"market must be a MarketConfig, got {self.market!r}")
        # Pairs can be hashed and pickled, and cannot be changed later.
        object.__setattr__(self, "reward", reward_terms(self.reward, REWARD_TERMS))
        TradingBatch.check(self.settings())

    def settings(self) -> str:
        """Settings for the Rust core, as JSON."""
        return to_json(
            {
                "market": self.market.settings,
                "tick_size": self.market.tick_size,
                "max_ticks": self.max_ticks,
                "order_size": self.order_size,
                "warm_up": self.warm_up,
                "features": {
                    "normalize": self.normalize,
                    "privileged": self.privileged,
                    "full55": self.full55,
                },
                "agent": self.agent,
                "reward": self.reward,
                "reward_memory": self.reward_memory,
            }
        )


class Trading(NativeEnv[NDArray[np.float64], Any]):
    """Trade with market makers and noise, value and technical traders in an order book.

    Observation: 54 features of each symbol, then the agent's own account if configured.
    Action: 0 sells, 1 holds, 2 buys `order_size` lots at the market, for each symbol; or the
        target weight of each.
    Reward: change of equity in currency, fees and spread paid, unless other terms are configured.
    Terminates: when equity falls to the ruin level.
    Truncates: after `max_ticks` decisions.

    Args:
        config: settings.
        **settings: fields of `TradingConfig` and `MarketConfig`, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.trading_renderer:TradingRenderer",
    }
    batch: TradingBatch | TradingWeightsBatch

    def __init__(self, config: TradingConfig | None = None, **settings: Any) -> None:
        self.config = _config(config, settings)
        super().__init__(*self.make_batch(1, config=self.config))

    @staticmethod
    def make_batch(
        num_envs: int,
        *,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        config: TradingConfig | None = None,
        **settings: Any,
    ) -> tuple[TradingBatch | TradingWeightsBatch, Box, Space[Any]]:
        """Batch of many envs, with the observation and action space of one."""
        config = _config(config, settings)
        kind = TradingBatch if config.action == "discrete" else TradingWeightsBatch
        batch = kind(config.settings(), num_envs, num_threads, max_episode_steps)
        names = batch.feature_names()
        return batch, Box(-np.inf, np.inf, (len(names),), np.float64), _action_space(config)

    def feature_names(self) -> list[str]:
        """Names of the features of an observation."""
        return self.batch.feature_names()


def _action_space(config: TradingConfig) -> Space[Any]:
    symbols = config.market.settings["symbols"]
    if config.action == "weights":
        return Box(-1.0, 1.0, (len(symbols),), np.float64)
    return Discrete(3) if len(symbols) == 1 else MultiDiscrete([3] * len(symbols))


def _config(config: TradingConfig | None, settings: dict[str, Any]) -> TradingConfig:
    if config is None:
        market_fields = {field.name for field in fields(MarketConfig)}
        market = {name: settings.pop(name) for name in sorted(market_fields & settings.keys())}
        if market and "market" in settings:
            raise TypeError(
                f"pass either a market or its fields, got both: market and {sorted(market)}"
            )
        if market:
            settings["market"] = MarketConfig(**market)
    return resolve_config(TradingConfig, config, settings)
