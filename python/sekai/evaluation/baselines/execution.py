"""Execution baselines: TWAP, VWAP, Almgren-Chriss and immediate execution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders import baselines as order_baselines
from sekai.compose.orders.composed import action_interpreter
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.interpreters import (
    CategoricalActionInterpreter,
    TwapRelativeActionInterpreter,
)
from sekai.compose.orders.order_execution import RISK_AVERSION, synthetic_market
from sekai.compose.orders.random_orders import days_of
from sekai.compose.orders.simulators import OrderSimulator
from sekai.evaluation.baselines import IncompatibleBaselineError
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.tasks.execution import ExecutionTask, order_simulators

__all__ = [
    "AlmgrenChrissSchedule",
    "ImmediateExecution",
    "OrderExecutionPolicy",
    "TWAPSchedule",
    "all_at_once",
    "almgren_chriss",
    "twap",
    "vwap",
]

Floats = NDArray[np.float64]
KNOWN_ACTIONS = (CategoricalActionInterpreter, TwapRelativeActionInterpreter)


class ExecutionSchedule(Policy):
    """Execution schedule for `OptimalExecution-v0`: a share of the rest, depending on time only."""

    ignores_wrappers = True

    @abstractmethod
    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """Share of the remaining order to trade now."""

    def begin(self, context: EpisodeContext) -> None:
        """Read the order from the task's config."""
        super().begin(context)
        assert isinstance(context.task, ExecutionTask), "schedules need an execution task"
        self.config = context.task.config()

    def decide(self, step: StepContext) -> Any:
        """Return shares of the rest or of the order, as the env expects."""
        observations = np.asarray(step.observations, np.float64)
        steps_left = np.rint(observations[:, 0] * self.config.episode_steps).astype(np.int64)
        shares = self.shares(steps_left)
        if self.config.action == "order":
            shares = shares * observations[:, 1]
        return np.clip(shares, 0.0, 1.0)[:, None]


class TWAPSchedule(ExecutionSchedule):
    """TWAP: equal slices of time."""

    name = "twap"

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """One over the number of steps left."""
        return 1.0 / np.maximum(steps_left, 1)


class ImmediateExecution(ExecutionSchedule):
    """Immediate execution: the whole order in the first step."""

    name = "all_at_once"

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """All of it."""
        return np.ones(len(steps_left))


class AlmgrenChrissSchedule(ExecutionSchedule):
    """Almgren-Chriss schedule: optimal trade-off between impact and risk, in closed form."""

    name = "almgren_chriss"

    def begin(self, context: EpisodeContext) -> None:
        """Solve the schedule once."""
        super().begin(context)
        # By steps left; with none left the share does not matter.
        self._shares = np.append(self.config.model.shares_of_rest(), 1.0)[::-1]

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """Optimal share by the number of steps left."""
        shares: Floats = self._shares[steps_left]
        return shares


class OrderExecutionPolicy(Policy):
    """Baseline of orders: a rule for the amount of each order's next step, as nearest action.

    Args:
        name: name of the baseline.
        rule: makes the rule of an order from the settings of its env.
    """

    ignores_wrappers = True

    def __init__(
        self, name: str, rule: Callable[[OrderExecutionConfig], order_baselines.OrderPolicy]
    ) -> None:
        self.name, self._rule = name, rule

    def begin(self, context: EpisodeContext) -> None:
        """Make a rule for each order."""
        super().begin(context)
        simulators = order_simulators(context.vec)
        if not simulators:
            raise IncompatibleBaselineError(
                f"{self.name} needs envs in this process; use mode='native' or 'sync'"
            )
        config = _config_of(context.vec)
        interpreter = action_interpreter(config)
        if not isinstance(interpreter, KNOWN_ACTIONS):
            raise IncompatibleBaselineError(
                f"{self.name} cannot express its amounts as actions of "
                f"{type(interpreter).__name__}; expected action='categorical' or 'twap_relative'"
            )
        # Each has its own, since rules remember the volume profile of their order.
        self._rules = [[self._rule(config) for _ in orders] for orders in simulators]
        self._shares = getattr(interpreter, "action_values", None)

    def decide(self, step: StepContext) -> Any:
        """Return an action for each order of each env."""
        vec = self.context.vec
        actions = [
            [self._action(rule, order) for rule, order in zip(rules, orders, strict=True)]
            for rules, orders in zip(self._rules, order_simulators(vec), strict=True)
        ]
        shape = (len(actions), *(vec.action_space.shape or ()))
        return np.array(actions, vec.action_space.dtype).reshape(shape)

    def _action(self, rule: order_baselines.OrderPolicy, simulator: OrderSimulator) -> Any:
        state = simulator.get_state()
        amount = 0.0 if simulator.done() else rule(state)
        if self._shares is not None:
            return int(np.abs(np.array(self._shares) - amount / state.order.amount).argmin())
        even = state.position * state.step_share
        return amount / even if even > 0 else 0.0


def _config_of(vec: Any) -> OrderExecutionConfig:
    inner = vec.unwrapped
    owner = inner.batch.table if hasattr(inner, "batch") else inner.envs[0].unwrapped
    config: OrderExecutionConfig = owner.config
    return config


def twap() -> OrderExecutionPolicy:
    """TWAP: equal amounts in every tick."""
    return OrderExecutionPolicy("twap", lambda config: order_baselines.TWAP())


def all_at_once() -> OrderExecutionPolicy:
    """Immediate execution: the whole order in the first step."""
    return OrderExecutionPolicy("all_at_once", lambda config: order_baselines.AllAtOnce())


def vwap() -> OrderExecutionPolicy:
    """VWAP: in proportion to the volume profile of earlier days."""
    return OrderExecutionPolicy("vwap", lambda config: order_baselines.VWAP(data=days_of(config)))


def almgren_chriss() -> OrderExecutionPolicy:
    """Almgren-Chriss schedule; needs synthetic data, whose impact and volatility are known."""

    def rule(config: OrderExecutionConfig) -> order_baselines.OrderPolicy:
        market = synthetic_market(config)
        if not market:
            raise IncompatibleBaselineError(
                "almgren_chriss needs impact and volatility, which are known for synthetic minutes "
                "only"
            )
        return order_baselines.AlmgrenChrissPolicy(risk_aversion=RISK_AVERSION, **market)

    return OrderExecutionPolicy("almgren_chriss", rule)
