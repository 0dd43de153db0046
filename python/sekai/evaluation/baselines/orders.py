"""Ways to work the orders of `OrderExecution-v0` that need no learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.compose.orders import baselines as known
from sekai.compose.orders.categorical_action import CategoricalActionInterpreter
from sekai.compose.orders.state import SAOEState
from sekai.evaluation.baselines.target_weights import UnfitBaselineError
from sekai.evaluation.players import Ground, Moment, Player

__all__ = ["OrderRule", "all_at_once", "almgren_chriss", "twap", "vwap"]

Amount = Callable[[Any, SAOEState], float]


class OrderRule(Player):
    """Decides an amount from where an order stands, and finds the action next to it."""

    is_bare = True

    def __init__(self, name: str, amount: Amount) -> None:
        self.name, self._amount = name, amount

    def begin(self, ground: Ground) -> None:
        """Find the envs, whose orders are asked for."""
        super().begin(ground)
        envs = getattr(ground.vec, "envs", None)
        if not envs:
            raise UnfitBaselineError(
                f"{self.name} needs envs in this process, found others: use mode='sync'"
            )
        self._envs = [env.unwrapped for env in envs]

    def decide(self, moment: Moment) -> Any:
        """An action for each order."""
        space = self.ground.vec.action_space
        return np.array([self._action(env) for env in self._envs], space.dtype)

    def _action(self, env: Any) -> Any:
        state = env.simulator.get_state()
        amount = self._amount(env, state)
        interpreter = env.action_interpreter
        if isinstance(interpreter, CategoricalActionInterpreter):
            share = amount / state.order.amount
            return int(np.abs(np.array(interpreter.action_values) - share).argmin())
        evenly = state.position * state.step_share
        return amount / evenly if evenly > 0 else 0.0


def twap() -> OrderRule:
    """The same in every tick."""
    rule = known.TWAP()
    return OrderRule("twap", lambda env, state: rule(state))


def all_at_once() -> OrderRule:
    """Everything in the first step."""
    rule = known.AllAtOnce()
    return OrderRule("all_at_once", lambda env, state: rule(state))


def vwap() -> OrderRule:
    """By the volume that the days before lead to expect."""
    rules: dict[int, known.VWAP] = {}

    def amount(env: Any, state: SAOEState) -> float:
        source = env.config.simulated if env.config.data is None else env.config.data
        if id(env) not in rules:
            rules[id(env)] = known.VWAP(data=source)
        return rules[id(env)](state)

    return OrderRule("vwap", amount)


def almgren_chriss() -> OrderRule:
    """The schedule of least cost and risk; of real data impact and volatility are not known."""

    def amount(env: Any, state: SAOEState) -> float:
        if env.config.data is not None:
            raise UnfitBaselineError(
                "almgren_chriss needs impact and volatility, which are known of made-up minutes "
                "alone: leave it out"
            )
        schedule = env.optimal_schedule()
        return float(schedule[0]) if len(schedule) else 0.0

    return OrderRule("almgren_chriss", amount)
