"""Making a market, judged by the sure wealth that outcomes are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.envs.market_making import MarketMakingConfig
from sekai.evaluation.episode import Episode
from sekai.evaluation.tasks.task import Record, Task
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena
    from sekai.evaluation.players import Moment

__all__ = ["MarketMakingTask"]


class MarketMakingTask(Task):
    """Wealth begins at 0, so that there are no returns: what counts is where it ends."""

    name = "market_making"
    headline = "certainty_equivalent"
    baselines = ("constant_quotes", "optimal_quotes", "wide_quotes", "random")

    def config(self) -> MarketMakingConfig:
        """How episodes are priced; the usual way where nobody knows."""
        options = self.arena.options or {}
        if options.get("config") is not None:
            given: MarketMakingConfig = options["config"]
            return given
        known = MarketMakingConfig.__dataclass_fields__
        return MarketMakingConfig(**{name: options[name] for name in known if name in options})

    def with_costs(self, multiple: float) -> Arena | None:
        """The same market with other penalties; None if there are none."""
        config = self.config()
        names = ("running_penalty", "liquidation_penalty")
        if self.arena.options is None or not any(getattr(config, name) for name in names):
            return None
        scaled = {name: getattr(config, name) * multiple for name in names}
        if self.arena.options.get("config") is not None:
            return self.arena.with_options(config=replace(config, **scaled))
        return self.arena.with_options(**scaled)

    def episode(self, record: Record, told: Any, log: Any) -> Episode:
        """Wealth and inventory; equity stays empty, because returns of it would mean nothing."""
        infos = record.infos
        outcome = {}
        if "wealth" in infos:
            earned = float(infos["wealth"][-1] - infos["wealth"][0])
            # Penalties are no part of wealth, and paid all the same.
            penalty = float(np.diff(infos["wealth"]).sum() - record.rewards.sum())
            outcome = {
                "terminal_wealth": earned,
                "certainty_equivalent": earned - penalty,
                "final_inventory": float(infos["inventory"][-1]),
                "mean_inventory": float(np.abs(infos["inventory"]).mean()),
                "fills": float(infos["fills"][-1]),
            }
        return Episode(
            seed=record.seed, rewards=record.rewards, equity=np.zeros(0), actions=record.actions,
            outcome=outcome,
        )  # fmt: skip

    def values(self, name: str, found: Sequence[float], episodes: Sequence[Episode]) -> list[float]:
        """Of the certainty equivalent what each episode adds to it, so that the mean is exact.

        With utilities `u = exp(-a w)` the certainty equivalent is `-log(mean u) / a`. Its first
        order change by one episode is `-(u / mean u - 1) / a`: what is spread around the mean is
        then what the delta method takes its standard error from.
        """
        if name != self.headline:
            return list(found)
        aversion = self.config().risk_aversion
        wealth = np.asarray(found, np.float64)
        if not aversion > 0 or not np.isfinite(wealth).all():
            return list(found)
        least = wealth.min()
        utility = np.exp(-aversion * (wealth - least))
        worth = least - np.log(utility.mean()) / aversion
        values: list[float] = (worth - (utility / utility.mean() - 1.0) / aversion).tolist()
        return values

    def idle(self, vec: VecEnv, moment: Moment) -> Any:
        """Quotes as far away as can be."""
        space: Any = vec.action_space
        return np.repeat(np.asarray(space.high, np.float64)[None], vec.num_envs, axis=0)
