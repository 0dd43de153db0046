"""Small markets and sessions for tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from sekai.data import MarketData, simulate_gbm
from sekai.envs import Portfolio
from sekai.live import (
    Feed,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    PaperFaults,
    ReplayFeed,
    RiskLimits,
    SessionStatus,
)
from sekai.market import Execution

FREE = RiskLimits(
    max_daily_loss=None, max_drawdown=None, price_collar=None, max_orders_per_minute=None
)
"""Limits that no quiet policy meets: markets that are made up may crash in a day."""


@dataclass(frozen=True)
class World:
    """Market whose first rows are history."""

    data: MarketData
    known: int
    settings: dict[str, Any]

    def env(self) -> Portfolio:
        """Env before its first step."""
        settings = {
            "features": ["log_return"], "lookback": 4, "stream": True, "episode_rows": None,
            "execution": Execution(sizing="decision"), **self.settings,
        }  # fmt: skip
        made = sekai.make("Portfolio-v0", data=self.data.rows(0, self.known), **settings)
        inner = made.unwrapped
        assert isinstance(inner, Portfolio)
        return inner

    def feed(self, stop: int | None = None) -> ReplayFeed:
        """Feed of the rows after the history."""
        return ReplayFeed(self.data, self.known, stop_row=stop)

    def broker(self, ledger: Path | None = None, faults: PaperFaults | None = None) -> PaperBroker:
        """A paper broker with the rules of the env."""
        return PaperBroker.like(self.env(), ledger, faults)


def world(rows: int = 100, known: int = 40, seed: int = 0, **settings: Any) -> World:
    """A quiet market of three assets."""
    return World(simulate_gbm(assets=3, rows=rows, seed=seed), known, settings)


def disrupted(rows: int = 100, known: int = 40, **settings: Any) -> World:
    """Market with a trading halt and a delisting."""
    data = simulate_gbm(assets=3, rows=rows, seed=3)
    values, listed = data.values.copy(), data.listed.copy()
    values[known + 10 : known + 14, 0] = np.nan
    values[known + 30 :, 1] = np.nan
    listed[known + 32 :, 1] = False
    quoted = np.isfinite(values).all(axis=2)
    changed = data.replace(values=values, listed=listed, quoted=quoted, tradable=quoted)
    return World(changed, known, settings)


def follow(observation: Any) -> np.ndarray:
    """Momentum policy that trades in every row."""
    last = np.asarray(observation["windows"][-1, :, 0], np.float64)
    scores = np.exp(20.0 * np.tanh(last * 20.0) / 20.0)
    weights = np.append(scores, 1.0)
    shares: np.ndarray = weights / weights.sum()
    return shares


def session(
    place: World,
    folder: Path,
    *,
    feed: Feed | None = None,
    broker: PaperBroker | None = None,
    policy: Any = follow,
    bars: int | None = None,
    **config: Any,
) -> SessionStatus:
    """Run a session to its end."""
    settings = {"limits": FREE, "sync": "never", "retry_seconds": 0.001, **config}
    made = LiveConfig(**settings)

    async def run() -> SessionStatus:
        runner = LiveRunner(
            policy,
            place.env(),
            place.feed() if feed is None else feed,
            place.broker() if broker is None else broker,
            folder,
            made,
        )
        return await runner.run(bars)

    return asyncio.run(run())


def snapshots(folder: Path) -> list[Path]:
    """Files of the snapshots of a session."""
    return sorted(folder.glob("snapshot.*.json"))
