"""Trading and market-making tasks: total return and certainty equivalent of wealth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.envs.market_making import MarketMakingConfig
from sekai.envs.trading import TradingConfig
from sekai.evaluation.evaluation import Episode, Flag
from sekai.evaluation.tasks import Task, config_of, reconfigured
from sekai.market.market import MarketConfig
from sekai.spaces import Box
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.env_source import EnvSource
    from sekai.evaluation.policy import StepContext
    from sekai.evaluation.recorder import RecordedEpisode

__all__ = ["MarketMakingTask", "TradingTask"]

FEE_STEP = 0.01
"""Fees are whole hundredths of a basis point."""


class TradingTask(Task):
    """`Trading-v0`: ranked by total return; ticks have no dates, so nothing is annualized."""

    name = "trading"
    headline = "total_return"
    baselines = ("hold", "always_long", "momentum", "mean_reversion", "random")

    def config(self) -> TradingConfig | None:
        """Config of the envs; None where it is unknown."""
        options = self.source.options
        if options is None:
            return None
        if options.get("config") is not None:
            config: TradingConfig = options["config"]
            return config
        own, market = (
            {field.name: options[field.name] for field in fields(kind) if field.name in options}
            for kind in (TradingConfig, MarketConfig)
        )
        if market:
            own["market"] = MarketConfig(**market)
        return TradingConfig(**own)

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with scaled fees; the spread belongs to the market."""
        config = self.config()
        account = None if config is None else config.market.account
        if config is None or account is None or not (account.taker_fee or account.maker_fee):
            return None
        scaled = replace(
            account,
            taker_fee=_rounded(account.taker_fee * multiple),
            maker_fee=_rounded(account.maker_fee * multiple),
        )
        market = replace(config.market, account=scaled)
        others = {
            name: option
            for name, option in (self.source.options or {}).items()
            if name in ("mode", "max_episode_steps", "num_workers", "wrappers")
        }
        return replace(self.source, options={**others, "config": replace(config, market=market)})

    def flags(self) -> list[Flag]:
        """Flag observations that contain the fair value."""
        config = self.config()
        if config is None or not config.privileged:
            return []
        message = (
            "observations contain the distance to fair value, which no trader can observe; "
            "set privileged=False to hide it"
        )
        return [Flag(name="privileged", level="warning", message=message)]

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Account after each tick."""
        infos = recorded.infos
        equity = infos.get("equity", np.zeros(0))
        costs = {"fees": np.diff(infos["fees"])} if "fees" in infos else {}
        exposure = infos.get("exposure")
        turnover = weights = None
        if exposure is not None and len(equity):
            share = exposure[1:] / equity[1:]
            weights = np.stack([share, 1.0 - share], axis=1)
            # Cash changes by trades and fees only.
            traded = np.abs(np.diff(infos["cash"]) + costs.get("fees", 0.0))
            turnover = traded / equity[:-1]
        return Episode(
            seed=recorded.seed,
            rewards=recorded.rewards,
            equity=equity,
            actions=recorded.actions,
            assets=("market",) if weights is not None else (),
            weights=weights,
            turnover=turnover,
            costs=costs,
        )

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return the hold action."""
        space = vec.action_space
        if isinstance(space, Box):
            return np.zeros((vec.num_envs, *space.shape))
        return np.ones((vec.num_envs, *(space.shape or ())), space.dtype)


class MarketMakingTask(Task):
    """`MarketMaking-v0`: ranked by the certainty equivalent of terminal wealth.

    Wealth starts at 0, so there are no returns and equity stays empty.
    """

    name = "market_making"
    headline = "certainty_equivalent"
    baselines = ("constant_quotes", "optimal_quotes", "wide_quotes", "random")

    def config(self) -> MarketMakingConfig:
        """Config of the envs; the default one where it is unknown."""
        return config_of(MarketMakingConfig, self.source)

    def with_costs(self, multiple: float) -> EnvSource | None:
        """Return the source with scaled inventory penalties; None if there are none."""
        config = self.config()
        names = ("running_penalty", "liquidation_penalty")
        if self.source.options is None or not any(getattr(config, name) for name in names):
            return None
        scaled = {name: getattr(config, name) * multiple for name in names}
        return reconfigured(self.source, **scaled)

    def episode(self, recorded: RecordedEpisode, start: Any, log: Any) -> Episode:
        """Terminal wealth, inventory and fills."""
        infos = recorded.infos
        outcome = {}
        if "wealth" in infos:
            earned = float(infos["wealth"][-1] - infos["wealth"][0])
            # Penalties reduce rewards but not wealth.
            penalty = float(np.diff(infos["wealth"]).sum() - recorded.rewards.sum())
            outcome = {
                "terminal_wealth": earned,
                "certainty_equivalent": earned - penalty,
                "final_inventory": float(infos["inventory"][-1]),
                "mean_inventory": float(np.abs(infos["inventory"]).mean()),
                "fills": float(infos["fills"][-1]),
            }
        return replace(super().episode(recorded, start, log), outcome=outcome)

    def per_episode(
        self, name: str, values: Sequence[float], episodes: Sequence[Episode]
    ) -> list[float]:
        """Contributions of episodes to the certainty equivalent; their mean is exact.

        With utilities `u = exp(-a w)` the certainty equivalent is `-log(mean u) / a`. Its first
        order change by one episode is `-(u / mean u - 1) / a`, so the standard error of these
        values is that of the delta method.
        """
        aversion = self.config().risk_aversion
        wealth = np.asarray(values, np.float64)
        if name != self.headline or not aversion > 0 or not np.isfinite(wealth).all():
            return list(values)
        lowest = wealth.min()
        utility = np.exp(-aversion * (wealth - lowest))
        equivalent = lowest - np.log(utility.mean()) / aversion
        equivalents: list[float] = (
            equivalent - (utility / utility.mean() - 1.0) / aversion
        ).tolist()
        return equivalents

    def idle(self, vec: VecEnv, step: StepContext) -> Any:
        """Return the widest quotes."""
        space: Any = vec.action_space
        return np.repeat(np.asarray(space.high, np.float64)[None], vec.num_envs, axis=0)


def _rounded(fee: float) -> float:
    return round(fee / FEE_STEP) * FEE_STEP
