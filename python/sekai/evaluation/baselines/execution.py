"""Execution baselines: TWAP, VWAP, Almgren-Chriss and immediate execution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders import baselines as order_baselines
from sekai.compose.orders.interpreters import CategoricalActionInterpreter
from sekai.compose.orders.order import Order
from sekai.compose.orders.order_batch import INFO, OrderBatch, native_settings
from sekai.compose.orders.state import SAOEState
from sekai.evaluation.baselines import IncompatibleBaselineError
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.tasks.execution import ExecutionTask, OrderExecutionTask

__all__ = [
    "AlmgrenChrissSchedule",
    "BasketPolicy",
    "ImmediateExecution",
    "OrderExecutionPolicy",
    "TWAPSchedule",
    "all_at_once",
    "almgren_chriss",
    "basket_all_at_once",
    "basket_twap",
    "basket_vwap",
    "twap",
    "vwap",
]

Floats = NDArray[np.float64]
Amount = Callable[[Any, SAOEState], float]


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
    """Baseline for `OrderExecution-v0`: an amount from the order's state, as nearest action.

    Args:
        name: name of the baseline.
        amount: function of the env and the order's state.
    """

    ignores_wrappers = True

    def __init__(self, name: str, amount: Amount) -> None:
        self.name, self._amount = name, amount

    def begin(self, context: EpisodeContext) -> None:
        """Find the envs."""
        super().begin(context)
        envs = getattr(context.vec, "envs", None)
        if not envs:
            raise IncompatibleBaselineError(
                f"{self.name} needs envs in this process; use mode='sync'"
            )
        self._envs = [env.unwrapped for env in envs]

    def decide(self, step: StepContext) -> Any:
        """Return an action for each order."""
        space = self.context.vec.action_space
        return np.array([self._action(env) for env in self._envs], space.dtype)

    def _action(self, env: Any) -> Any:
        state = env.simulator.get_state()
        amount = self._amount(env, state)
        interpreter = env.action_interpreter
        is_categorical = isinstance(interpreter, CategoricalActionInterpreter)
        return _nearest_action(amount, state, interpreter.action_values if is_categorical else None)


def _nearest_action(amount: float, state: Any, shares: Any) -> Any:
    """Action nearest to an amount: an index into shares of the order, or a multiple of TWAP."""
    if shares is not None:
        return int(np.abs(np.array(shares) - amount / state.order.amount).argmin())
    even = state.position * state.step_share
    return amount / even if even > 0 else 0.0


def twap() -> OrderExecutionPolicy:
    """TWAP: equal amounts in every tick."""
    rule = order_baselines.TWAP()
    return OrderExecutionPolicy("twap", lambda env, state: rule(state))


def all_at_once() -> OrderExecutionPolicy:
    """Immediate execution: the whole order in the first step."""
    rule = order_baselines.AllAtOnce()
    return OrderExecutionPolicy("all_at_once", lambda env, state: rule(state))


def vwap() -> OrderExecutionPolicy:
    """VWAP: in proportion to the volume profile of earlier days."""
    rules: dict[int, order_baselines.VWAP] = {}

    def amount(env: Any, state: SAOEState) -> float:
        if id(env) not in rules:
            data = env.config.simulated if env.config.data is None else env.config.data
            rules[id(env)] = order_baselines.VWAP(data=data)
        return rules[id(env)](state)

    return OrderExecutionPolicy("vwap", amount)


class AlmgrenChrissOrderPolicy(OrderExecutionPolicy):
    """Almgren-Chriss schedule of an order; needs synthetic data, whose impact is known."""

    def begin(self, context: EpisodeContext) -> None:
        """Reject data whose impact and volatility are unknown."""
        assert isinstance(context.task, OrderExecutionTask)
        if context.task.config().data is not None:
            raise IncompatibleBaselineError(
                f"{self.name} needs impact and volatility, which are known for synthetic minutes "
                "only"
            )
        super().begin(context)


def almgren_chriss() -> OrderExecutionPolicy:
    """Almgren-Chriss schedule; needs synthetic data, whose impact and volatility are known."""

    def amount(env: Any, state: SAOEState) -> float:
        schedule = env.optimal_schedule()
        return float(schedule[0]) if len(schedule) else 0.0

    return AlmgrenChrissOrderPolicy("almgren_chriss", amount)


@dataclass(frozen=True, slots=True, eq=False)
class _BasketOrder:
    """State of an order of a basket, as far as baselines read it from an `SAOEState`."""

    order: Order
    position: float
    cur_tick: int
    stop_tick: int
    next_boundary: int
    ticks_index: NDArray[np.datetime64]

    @property
    def step_share(self) -> float:
        """Share of the next step in the ticks left."""
        left = self.stop_tick - self.cur_tick
        return (self.next_boundary - self.cur_tick) / left if left else 1.0

    @classmethod
    def of(cls, numbers: Floats, batch: OrderBatch) -> _BasketOrder:
        values = dict(zip(INFO, numbers.tolist(), strict=True))
        ticks = batch.table.ticks[int(values["ticks"])]
        times, first, stop = ticks.times, int(values["first"]), int(values["stop"])
        direction = int(values["direction"])
        return cls(
            Order(ticks.stock_id, values["amount"], direction, times[first], times[stop - 1]),
            values["position"],
            int(values["tick"]),
            stop,
            int(values["boundary"]),
            times,
        )


class BasketPolicy(Policy):
    """Baseline for `BasketExecution-v0`: the same rule for every order of a basket.

    Args:
        name: name of the baseline.
        rule: makes the rule of an order from the source of ticks.
    """

    ignores_wrappers = True

    def __init__(self, name: str, rule: Callable[[Any], Any]) -> None:
        self.name, self._rule = name, rule

    def begin(self, context: EpisodeContext) -> None:
        """Make a rule for each order."""
        super().begin(context)
        batch = getattr(context.vec.unwrapped, "batch", None)
        if not isinstance(batch, OrderBatch):
            raise IncompatibleBaselineError(f"{self.name} needs a native batch; use mode='native'")
        self._batch = batch
        envs, orders, _ = batch.native.order_infos().shape
        days = batch.table.days
        # Each has its own, since rules remember the volume profile of their order.
        self._rules = [[self._rule(days) for _ in range(orders)] for _ in range(envs)]
        self._shares = native_settings(batch.table.config, 1)["shares"]

    def decide(self, step: StepContext) -> Any:
        """Return an action for each order of each basket."""
        space = self.context.vec.action_space
        infos = self._batch.native.order_infos()
        actions = [
            [self._action(rule, row) for rule, row in zip(rules, rows, strict=True)]
            for rules, rows in zip(self._rules, infos, strict=True)
        ]
        return np.array(actions, space.dtype)

    def _action(self, rule: Any, numbers: Floats) -> Any:
        state = _BasketOrder.of(numbers, self._batch)
        amount = 0.0 if numbers[INFO["done"]] else rule(state)
        return _nearest_action(amount, state, self._shares)


def basket_twap() -> BasketPolicy:
    """TWAP of every order: equal amounts in every tick."""
    return BasketPolicy("twap", lambda days: order_baselines.TWAP())


def basket_vwap() -> BasketPolicy:
    """VWAP of every order: in proportion to the volume profile of earlier days."""
    return BasketPolicy("vwap", lambda days: order_baselines.VWAP(data=days))


def basket_all_at_once() -> BasketPolicy:
    """Immediate execution: every order in the first step."""
    return BasketPolicy("all_at_once", lambda days: order_baselines.AllAtOnce())
