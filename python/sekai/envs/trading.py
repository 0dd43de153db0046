"""Trade in a living order-book market: sell, hold or buy, or set the share of equity to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import TradingBatch, TradingWeightsBatch, trading_defaults
from sekai.envs.native_env import NativeEnv
from sekai.market.config import MarketConfig
from sekai.market.settings import to_json
from sekai.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["Trading", "TradingConfig"]

Terms = tuple[tuple[str, float], ...]

_DEFAULTS: dict[str, Any] = json.loads(trading_defaults())


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingConfig:
    """How an episode of `Trading` is cut, shown and rewarded."""

    market: MarketConfig = field(default_factory=MarketConfig)
    """The market that is traded in."""

    max_ticks: int = _DEFAULTS["max_ticks"]
    """Decisions until the episode is truncated."""

    order_size: int = _DEFAULTS["order_size"]
    """Lots of one sell or buy."""

    action: Literal["discrete", "weights"] = "discrete"
    """Sell, hold or buy for each symbol, or the share of equity to hold of it."""

    normalize: bool = _DEFAULTS["features"]["normalize"]
    """Whether features in units of price are divided by the mid price."""

    privileged: bool = _DEFAULTS["features"]["privileged"]
    """Whether features that tell of the fair value are shown; else they stay neutral."""

    full55: bool = _DEFAULTS["features"]["full55"]
    """Whether the net order flow is shown as the 55th feature."""

    agent: bool = _DEFAULTS["agent"]
    """Whether the agent's own position, profit, cash and time left are shown too."""

    reward: str | Mapping[str, float] | Terms = tuple(map(tuple, _DEFAULTS["reward"]))
    """Terms of the reward with their weights, or a single one: `equity_change`, `log_growth`,
    `volatility_penalty`, `transaction_cost`, `drawdown_penalty`, `differential_sharpe`,
    `terminal_sharpe`."""

    reward_memory: float = _DEFAULTS["reward_memory"]
    """How fast the volatility and the differential Sharpe ratio forget, from 0 to 1."""

    warm_up: int = _DEFAULTS["warm_up"]
    """Ticks that a market runs before an episode begins in it."""

    def __post_init__(self) -> None:
        if self.action not in ("discrete", "weights"):
            raise ValueError(f"action must be 'discrete' or 'weights', was {self.action!r}")
        if not isinstance(self.market, MarketConfig):
            raise TypeError(f"market must be a MarketConfig, was {self.market!r}")
        # Pairs can be hashed and pickled, and nobody can change them later.
        object.__setattr__(self, "reward", _terms(self.reward))
        TradingBatch.check(self.settings())

    def settings(self) -> str:
        """What the Rust core is given."""
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
    """Trade against a population of makers, noise, value and technical traders.

    Observation: 54 features of each symbol, then the agent's own account if asked for.
    Action: 0 sells, 1 holds, 2 buys `order_size` lots at the market, for each symbol; or the
        share of equity to hold of each.
    Reward: change of equity in currency, fees and spread paid, unless other terms are asked for.
    Terminates: when equity falls to the ruin level.
    Truncates: after `max_ticks` decisions.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.rendering.trading_renderer:TradingRenderer",
    }
    batch: TradingBatch | TradingWeightsBatch

    def __init__(self, config: TradingConfig | None = None, **settings: Any) -> None:
        """Build from a config, or from the fields of `TradingConfig` and `MarketConfig` by name."""
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
        """Many of these envs, the space of their observations and that of their actions."""
        config = _config(config, settings)
        kind = TradingBatch if config.action == "discrete" else TradingWeightsBatch
        batch = kind(config.settings(), num_envs, num_threads, max_episode_steps)
        names = batch.feature_names()
        return batch, Box(-np.inf, np.inf, (len(names),), np.float64), _action_space(config)

    def feature_names(self) -> list[str]:
        """What the numbers of an observation are called."""
        return self.batch.feature_names()


def _terms(reward: str | Mapping[str, float] | Terms) -> Terms:
    if isinstance(reward, str):
        return ((reward, 1.0),)
    pairs = reward.items() if isinstance(reward, Mapping) else reward
    return tuple((term, weight) for term, weight in pairs)


def _action_space(config: TradingConfig) -> Space[Any]:
    symbols = config.market.settings["symbols"]
    if config.action == "weights":
        return Box(-1.0, 1.0, (len(symbols),), np.float64)
    return Discrete(3) if len(symbols) == 1 else MultiDiscrete([3] * len(symbols))


def _config(config: TradingConfig | None, settings: dict[str, Any]) -> TradingConfig:
    if config is not None:
        if settings:
            raise TypeError(
                f"either a config or its fields were wanted, found both: {sorted(settings)}"
            )
        return config
    of_market = {one.name for one in fields(MarketConfig)}
    market = {name: settings.pop(name) for name in sorted(of_market & settings.keys())}
    if market:
        if "market" in settings:
            raise TypeError(
                f"either a market or its fields were wanted, found both: {sorted(market)}"
            )
        settings["market"] = MarketConfig(**market)
    return TradingConfig(**settings)
