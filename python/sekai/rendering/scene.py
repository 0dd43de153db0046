"""What pictures of the built-in tasks are drawn from: an episode at one tick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MarketMakingScene",
    "News",
    "OptimalExecutionScene",
    "PortfolioScene",
    "Scene",
    "TradingScene",
    "native_scene",
]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

News = tuple[str, float, float, int, int]
"""Topic, sentiment from -1 to 1, magnitude, the tick in which it came out, ticks it lasts."""


class Scene(Protocol):
    """What every task can tell of an episode at one tick."""

    @property
    def seed(self) -> int:
        """What the env was seeded with."""

    @property
    def episode(self) -> int:
        """Episodes that began since then, before this one."""

    @property
    def tick(self) -> int:
        """Decisions taken in this episode."""

    @property
    def initial_cash(self) -> float:
        """What the episode began with."""

    @property
    def equity(self) -> float:
        """What cash and all that is held come to."""


@dataclass(frozen=True, kw_only=True)
class TradingScene:
    """One symbol of `Trading` at one tick. Prices are in ticks, money is in currency."""

    seed: int
    episode: int
    tick: int
    tick_size: float
    """The currency that one tick of price stands for."""
    mid: float
    fair: float | None
    """What a share is worth; None where the agent is not shown it either."""
    lots: int
    cash: float
    equity: float
    initial_cash: float
    bid_price: Numbers
    """Levels of the book, best first."""
    bid_size: Numbers
    ask_price: Numbers
    ask_size: Numbers
    trade_price: Numbers
    """Trades of the last tick, one after the other."""
    trade_size: Numbers
    trade_sign: Numbers
    """1 where a buyer came in, -1 where a seller did."""
    trade_own: Numbers
    """1 where the agent bought, -1 where it sold, 0 where it took no part."""
    news: list[News]

    @property
    def position(self) -> float:
        """Lots that are held."""
        return self.lots


@dataclass(frozen=True, kw_only=True)
class MarketMakingScene:
    """`MarketMaking` at one step."""

    seed: int
    episode: int
    tick: int
    mid: float
    inventory: float
    cash: float
    wealth: float
    initial_cash: float
    fills: float
    """Fills since the episode began."""
    bid_distance: float | None
    """What was quoted in the last step, from the mid; None before the first one."""
    ask_distance: float | None

    @property
    def position(self) -> float:
        """Lots that are held."""
        return self.inventory

    @property
    def equity(self) -> float:
        """Cash, and lots at the mid price."""
        return self.wealth


@dataclass(frozen=True, kw_only=True)
class OptimalExecutionScene:
    """`OptimalExecution` at one step."""

    seed: int
    episode: int
    tick: int
    sign: int
    """1 for an order that sells, -1 for one that buys."""
    shares: float
    """The whole order."""
    episode_steps: int
    """The decisions there are for it."""
    shortfall: float
    inventory: float
    """What is left to trade."""
    optimal_inventory: float
    """What the optimal schedule has left by now."""
    price: float
    traded: float
    """In the last step."""
    fill_price: float | None
    """Where that was; None if nothing was traded."""
    cash: float
    expected_cost: float
    variance: float
    initial_cash: float = 0.0

    @property
    def position(self) -> float:
        """What is left to trade; short for a buyer."""
        return self.sign * self.inventory

    @property
    def equity(self) -> float:
        """Minus what the order has fallen short of its value at the initial price."""
        return -self.shortfall


@dataclass(frozen=True, kw_only=True)
class PortfolioScene:
    """Portfolios of one agent or several in one row of the data."""

    seed: int
    episode: int
    tick: int
    """The row of the data."""
    time: np.datetime64
    """When that row was known."""
    agent: int
    """Whose portfolio is looked at."""
    agents: tuple[str, ...]
    assets: tuple[str, ...]
    beginnings: Floats
    """What each agent began with."""
    equities: Floats
    """What each agent has."""
    weights: NDArray[np.float32]
    """What assets, and last cash, are of each agent's equity: agents by assets and one."""
    benchmark: float
    """A level: only its changes say something."""
    cost: float | None = None
    """What the last step has cost; None where several agents paid."""
    turnover: float | None = None
    """What was traded in the last step, as a share of equity."""

    @property
    def initial_cash(self) -> float:
        """What the agent that is looked at began with."""
        return float(self.beginnings[self.agent])

    @property
    def equity(self) -> float:
        """What the agent that is looked at has."""
        return float(self.equities[self.agent])

    @property
    def gross(self) -> Floats:
        """Of each agent, values held long and short together as a share of equity."""
        return np.asarray(np.abs(self.weights[:, :-1]).sum(axis=1), np.float64)

    @property
    def net(self) -> Floats:
        """Of each agent, values held long less those held short as a share of equity."""
        return np.asarray(self.weights[:, :-1].sum(axis=1), np.float64)


def native_scene(env: Any, env_index: int, *arguments: Any) -> dict[str, Any]:
    """What `env`, or the batch under a single or a vector env, tells of one env in it."""
    inner = env.unwrapped
    scene = getattr(inner, "scene", None) or getattr(getattr(inner, "batch", None), "scene", None)
    if scene is None:
        raise TypeError(
            "an env or vector env of a built-in task was wanted, over a native batch that tells "
            f"its scene; found {type(inner).__name__}"
        )
    told: dict[str, Any] = scene(env_index, *arguments)
    return told
