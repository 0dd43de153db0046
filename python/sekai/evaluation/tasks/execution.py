"""Working a large order, judged by what it falls short of its value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.envs.optimal_execution import OptimalExecutionConfig
from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.tasks.task import Record, Task

if TYPE_CHECKING:
    from sekai.evaluation.arena import Arena

__all__ = ["ExecutionTask"]

BASIS_POINTS = 1e4
NO_IMPACT = 1e-15
"""The model needs some impact: this is none that anybody could see."""


class ExecutionTask(Task):
    """Shortfalls are in basis points of the order's value at the initial price.

    An env that weighs risk is judged by the shortfall with its risk, since that is what was asked
    for; one that does not, by the shortfall alone.
    """

    name = "execution"
    higher_is_better = False
    baselines = ("twap", "almgren_chriss", "all_at_once", "random")

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena)
        weighs_risk = self.config().risk_aversion > 0
        self.headline = "risk_adjusted_shortfall" if weighs_risk else "shortfall"

    def config(self) -> OptimalExecutionConfig:
        """What order is worked; the usual one where nobody knows."""
        options = self.arena.options or {}
        if options.get("config") is not None:
            given: OptimalExecutionConfig = options["config"]
            return given
        known = OptimalExecutionConfig.__dataclass_fields__
        return OptimalExecutionConfig(**{name: options[name] for name in known if name in options})

    def with_costs(self, multiple: float) -> Arena | None:
        """The same prices with other impact and another spread."""
        if self.arena.options is None:
            return None
        config = self.config()
        scaled: dict[str, Any] = {
            "half_spread": config.half_spread * multiple,
            "permanent_impact": config.permanent_impact * multiple,
            "temporary_impact": max(config.temporary_impact * multiple, NO_IMPACT),
        }
        if self.arena.options.get("config") is not None:
            return self.arena.with_options(config=replace(config, **scaled))
        return self.arena.with_options(**scaled)

    def episode(self, record: Record, told: Any, log: Any) -> Episode:
        """What was sold when, and what it fell short of."""
        infos, config = record.infos, self.config()
        value = config.shares * config.initial_price
        unit = value / 100 if config.reward_unit is None else config.reward_unit
        outcome = {
            "shortfall": float(infos["shortfall"][-1]) / value * BASIS_POINTS,
            "risk_adjusted_shortfall": -float(record.rewards.sum()) * unit / value * BASIS_POINTS,
        }
        traded, cash = infos["traded"][1:], np.diff(infos["cash"])
        with np.errstate(invalid="ignore", divide="ignore"):
            price = np.where(traded > 0, np.abs(cash) / traded, np.nan)
        steps = np.flatnonzero(traded > 0)
        sign = -1.0 if config.side == "sell" else 1.0
        return Episode(
            seed=record.seed, rewards=record.rewards, equity=np.zeros(0), actions=record.actions,
            assets=("order",), prices=infos["price"][:, None], outcome=outcome,
            fills=Fills(step=steps, asset=np.full(len(steps), "order"),
                        units=sign * traded[steps], price=price[steps]),
        )  # fmt: skip
