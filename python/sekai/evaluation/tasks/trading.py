"""Trading in a living order-book market, judged by what equity has grown by."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.envs.trading import TradingConfig
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Flag
from sekai.evaluation.tasks.task import Record, Task
from sekai.market.config import MarketConfig
from sekai.spaces import Box
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["TradingTask"]

FEE_STEP = 0.01
"""Fees are whole hundredths of a basis point."""


class TradingTask(Task):
    """Ticks have no dates, so that nothing is annualised: policies are ranked by total return."""

    name = "trading"
    headline = "total_return"
    baselines = ("hold", "always_long", "momentum", "mean_reversion", "random")

    def config(self) -> TradingConfig | None:
        """How episodes are cut; None where nobody knows."""
        options = self.arena.options
        if options is None:
            return None
        if options.get("config") is not None:
            given: TradingConfig = options["config"]
            return given
        own, of_market = (_named(kind, options) for kind in (TradingConfig, MarketConfig))
        if of_market:
            own["market"] = MarketConfig(**of_market)
        return TradingConfig(**own)

    def with_costs(self, multiple: float) -> Arena | None:
        """The same market with other fees; the spread is the market's own."""
        config = self.config()
        account = None if config is None else config.market.account
        if config is None or account is None or not (account.taker_fee or account.maker_fee):
            return None
        scaled = replace(
            account,
            taker_fee=_whole(account.taker_fee * multiple),
            maker_fee=_whole(account.maker_fee * multiple),
        )
        market = replace(config.market, account=scaled)
        others = {
            name: option
            for name, option in (self.arena.options or {}).items()
            if name in ("mode", "max_episode_steps", "num_workers", "wrappers")
        }
        return replace(self.arena, options={**others, "config": replace(config, market=market)})

    def flags(self) -> list[Flag]:
        """Whether something is shown that no trader could know."""
        config = self.config()
        if config is None or not config.privileged:
            return []
        message = (
            "the env shows how far prices are from fair value, which nobody knows in a market: "
            "privileged=False hides it"
        )
        return [Flag(name="privileged", level="warning", message=message)]

    def episode(self, record: Record, told: Any, log: Any) -> Episode:
        """The account after each tick."""
        infos = record.infos
        equity = infos.get("equity", np.zeros(0))
        costs = {"fees": np.diff(infos["fees"])} if "fees" in infos else {}
        exposure = infos.get("exposure")
        turnover = weights = None
        if exposure is not None and len(equity):
            share = exposure[1:] / equity[1:]
            weights = np.stack([share, 1.0 - share], axis=1)
            turnover = _turnover(infos, equity)
        return Episode(
            seed=record.seed, rewards=record.rewards, equity=equity, actions=record.actions,
            assets=("market",) if weights is not None else (), weights=weights,
            turnover=turnover, costs=costs,
        )  # fmt: skip

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """Hold what there is; before the first order that is nothing."""
        space = vec.action_space
        if isinstance(space, Box):
            return np.zeros((vec.num_envs, *space.shape))
        return np.ones((vec.num_envs, *(space.shape or ())), space.dtype)


def _named(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    return {one.name: options[one.name] for one in fields(kind) if one.name in options}


def _turnover(infos: dict[str, Any], equity: Any) -> Any:
    # Cash changes by what is traded and by fees alone.
    paid = np.diff(infos["fees"]) if "fees" in infos else 0.0
    traded = np.abs(np.diff(infos["cash"]) + paid)
    return traded / equity[:-1]


def _whole(fee: float) -> float:
    return round(fee / FEE_STEP) * FEE_STEP
