"""OrderExecution environment: execute an order of one asset within a day, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sekai.compose.component import EnvAware
from sekai.compose.env_wrapper import EnvWrapper
from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.baselines import almgren_chriss_amounts
from sekai.compose.orders.data import OrderData, SimulatedMinutes, TickFeatures, as_intraday
from sekai.compose.orders.interpreters import (
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    DummyStateInterpreter,
    FullHistoryStateInterpreter,
    TwapRelativeActionInterpreter,
)
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.rewards import PAPenaltyReward, PPOReward, ShortfallReward
from sekai.compose.orders.simulators import OrderCosts, SingleAssetOrderExecutionSimple
from sekai.compose.orders.state import SAOEMetrics, SAOEState, price_advantage
from sekai.compose.reward import Reward
from sekai.config.checked import CheckedConfig
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import IntradayData
from sekai.data.market_data import MarketData
from sekai.envs.native_env import resolve_config
from sekai.error import DataError, ResetRequired

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["OrderExecution", "OrderExecutionConfig"]

SPREAD_SHARE = 0.01
"""Share of the volume that moves the price by one spread, as a rule of thumb."""


class OrderExecution(EnvWrapper[Order, SAOEState, float, Any, Any]):
    """Execute an order of one asset within its window: choose the amount of each step.

    Observation: the day's ticks so far and those of the day before, direction, progress and
        amount left; or that of another interpreter.
    Action: a share of the order out of a list; or a multiple of TWAP.
    Reward: negative implementation shortfall in basis points, with costs.
    Terminates: when nothing is left, or the window is over.
    Truncates: never.

    When an order is done, its metrics are in `info["log"]`. There `pa` is relative to the TWAP of
    the ticks until then, without later prices; `env.simulator.metrics` has the one of the whole
    window.

    Args:
        config: settings.
        **settings: fields of the config, instead of it.
    """

    metadata = {  # noqa: RUF012 - as the base class types it
        "stochastic": True,
        "renderer": "sekai.compose.orders.order_renderer:OrderRenderer",
    }
    # It never changes, and holds all the data.
    state_excludes = ("config",)

    def __init__(self, config: OrderExecutionConfig | None = None, **settings: Any) -> None:
        self.config = resolve_config(OrderExecutionConfig, config, settings)
        days = as_intraday(self.config.simulated if self.config.data is None else self.config.data)
        super().__init__(
            _SimulatorFactory(self.config, days),
            _state(self.config, days),
            _action(self.config),
            RandomOrders(self.config, days),
            _reward(self.config),
        )

    def optimal_schedule(
        self,
        *,
        risk_aversion: float = 1e-6,
        temporary_impact: float | None = None,
        permanent_impact: float = 0.0,
        volatility: float | None = None,
    ) -> NDArray[np.float64]:
        """Optimal amount of each step left by Almgren and Chriss, in closed form.

        Args:
            risk_aversion: cost of a unit of variance.
            temporary_impact: temporary price impact per share per tick. By default, for synthetic
                minutes only: a hundredth of the volume costs a spread.
            permanent_impact: permanent price impact per share.
            volatility: volatility of the price per tick, in currency. By default that of
                synthetic minutes.

        Raises:
            ValueError: impact or volatility are missing and the data is not synthetic.
        """
        if self.simulator is None:
            raise ResetRequired("optimal_schedule() was called before reset(): call reset() first")
        synthetic = self.config.simulated if self.config.data is None else None
        if synthetic is not None:
            spread = 2 * synthetic.half_spread * synthetic.price
            volume = synthetic.daily_volume / synthetic.ticks
            if temporary_impact is None:
                temporary_impact = spread / (SPREAD_SHARE * volume)
            if volatility is None:
                volatility = synthetic.price * synthetic.tick_volatility
        if temporary_impact is None or volatility is None:
            raise ValueError(
                "temporary_impact and volatility are known for synthetic minutes only; pass both"
            )
        return almgren_chriss_amounts(
            self.simulator.get_state(),
            risk_aversion=risk_aversion,
            volatility=volatility,
            temporary_impact=temporary_impact,
            permanent_impact=permanent_impact,
        )


class _CausalLogSimulator(SingleAssetOrderExecutionSimple):
    """Simulator whose log has no price after the end of the order."""

    def _log(self, metrics: SAOEMetrics) -> None:
        advantage = price_advantage(metrics.trade_price, metrics.market_price, self.order.direction)
        super()._log(replace(metrics, pa=advantage))


class _SimulatorFactory:
    """Picklable factory of simulators."""

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config, self.days = config, days

    def __call__(self, order: Order) -> SingleAssetOrderExecutionSimple:
        config = self.config
        return _CausalLogSimulator(
            order,
            self.days,
            config.ticks_per_step,
            config.deal_price_type,
            vol_threshold=config.vol_threshold,
            costs=config.costs,
        )


def _state(config: OrderExecutionConfig, days: IntradayData) -> StateInterpreter[SAOEState, Any]:
    if isinstance(config.state, StateInterpreter):
        return config.state
    if config.state == "full_history":
        shape = config.order_steps, config.day_ticks, len(config.columns)
        return FullHistoryStateInterpreter(*shape, TickFeatures(days, config.columns))
    if config.state == "current_step":
        return CurrentStepStateInterpreter(config.order_steps)
    return DummyStateInterpreter()


def _action(config: OrderExecutionConfig) -> ActionInterpreter[SAOEState, Any, float]:
    if isinstance(config.action, ActionInterpreter):
        return config.action
    if config.action == "categorical":
        return CategoricalActionInterpreter(config.action_values, config.order_steps)
    return TwapRelativeActionInterpreter()


def _reward(config: OrderExecutionConfig) -> Reward[SAOEState] | None:
    if config.reward is None or isinstance(config.reward, Reward):
        return config.reward
    if config.reward == "ppo":
        return PPOReward(config.order_steps, end_time_index=config.day_ticks - 1)
    kind = ShortfallReward if config.reward == "shortfall" else PAPenaltyReward
    return kind(penalty=config.penalty)


STATES = ("full_history", "current_step", "dummy")
ACTIONS = ("categorical", "twap_relative")
REWARDS = ("shortfall", "pa_penalty", "ppo")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderExecutionConfig(CheckedConfig):
    """Settings of `OrderExecution`: data, orders, matching, observation, action and reward."""

    data: OrderData | None = None
    """Source of ticks: a panel, a frame of minutes, the folder of a `TickStore` or anything that
    has days; None for synthetic minutes."""

    simulated: SimulatedMinutes = field(default_factory=SimulatedMinutes)
    """Settings of synthetic minutes."""

    orders: Sequence[Order] | None = None
    """Orders of which each episode draws one; None for random orders."""

    assets: Sequence[str] | None = None
    """Assets of random orders; None for all of the data."""

    days: Sequence[Any] | None = None
    """Days of random orders; None for all of the data."""

    amount: tuple[float, float] = (1_000.0, 20_000.0)
    """Smallest and largest amount of random orders."""

    direction: Literal["buy", "sell"] | None = None
    """Direction of random orders; None for either."""

    order_steps: int = 6
    """Steps of a random order, or most steps of a given one."""

    ticks_per_step: int = 30
    """Ticks in a step."""

    deal_price_type: str = "close"
    """`close`, `bid_or_ask` or `bid_or_ask_fill`."""

    vol_threshold: float | None = None
    """Largest share of a tick's volume that is filled."""

    costs: OrderCosts = field(default_factory=OrderCosts)
    """Costs of fills."""

    state: str | StateInterpreter[Any, Any] = "full_history"
    """Observation: `full_history`, `current_step`, `dummy`, or an interpreter."""

    columns: tuple[str, ...] = ("$close", "$volume")
    """Columns of ticks in `full_history`, relative to the day's first value."""

    day_ticks: int = 240
    """Ticks of a day in `full_history`; no day may have more."""

    action: str | ActionInterpreter[Any, Any, float] = "categorical"
    """Action: `categorical` (a share of the order), `twap_relative`, or an interpreter."""

    action_values: int | tuple[float, ...] = 6
    """Shares of `categorical`, or the number of parts of the order."""

    reward: str | Reward[Any] | None = "shortfall"
    """Reward: `shortfall` (against the first price), `pa_penalty` and `ppo` (against means that
    include later prices), a reward object, or None."""

    penalty: float = 0.0
    """Penalty of trading all in one tick, in basis points; for the first two rewards."""

    def __post_init__(self) -> None:
        for name in ("order_steps", "ticks_per_step", "day_ticks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        least, most = self.amount
        if not (0 < least <= most and math.isfinite(most)):
            raise ValueError(f"amount must be two ascending numbers above 0, got {self.amount}")
        if self.direction not in (None, "buy", "sell"):
            raise ValueError(f"direction must be 'buy', 'sell' or None, got {self.direction!r}")
        for name, known in (("state", STATES), ("action", ACTIONS), ("reward", REWARDS)):
            value = getattr(self, name)
            if isinstance(value, str) and value not in known:
                raise ValueError(f"{name} must be one of {list(known)}, got {value!r}")
        if self.orders is not None and not len(self.orders):
            raise ValueError("orders must have at least one order, or be None for random ones")


SIMULATED_ASSETS = ("SIM",)
SIMULATED_DAYS = np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")
ATTEMPTS = 100
"""Attempts to draw a day with enough ticks."""


class RandomOrders(EnvAware):
    """Iterator of random orders, drawn from the env's random stream, which is its state.

    Args:
        config: settings of the orders.
        days: ticks that the orders must fit.
    """

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config = config
        self.days = days
        if config.orders is None:
            self.assets, self.dates = _assets(config, days), _dates(config, days)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Order:
        """Next random order, without end."""
        env = self.env
        assert env is not None
        if self.config.orders is not None:
            return self.config.orders[int(env.rng.integers(len(self.config.orders)))]
        return self._draw(env.rng)

    def state_dict(self) -> dict[str, Any]:
        """Empty state: the stream belongs to the env."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Ignore the empty state."""

    def _draw(self, rng: np.random.Generator) -> Order:
        config = self.config
        # Draws come before the data is read, so that it cannot change them.
        amount = float(rng.uniform(*config.amount))
        random_side = OrderDir(int(rng.integers(2)))
        direction = OrderDir[config.direction.upper()] if config.direction else random_side
        for _ in range(ATTEMPTS):
            asset = str(self.assets[int(rng.integers(len(self.assets)))])
            date = self.dates[int(rng.integers(len(self.dates)))]
            position = float(rng.random())
            window = self._window(asset, date, position)
            if window is not None:
                return Order(asset, amount, direction, *window)
        raise DataError(
            f"none of {ATTEMPTS} random days has {self._ticks} ticks; choose others by assets= and "
            "days=, or fewer steps by order_steps="
        )

    @property
    def _ticks(self) -> int:
        return self.config.order_steps * self.config.ticks_per_step

    def _window(self, asset: str, date: Any, position: float) -> tuple[Any, Any] | None:
        """Start and end of whole steps in a day; None if it has too few ticks."""
        try:
            times = self.days.day(asset, date).times
        except DataError:  # there are no ticks
            return None
        starts = (len(times) - self._ticks) // self.config.ticks_per_step + 1
        if starts < 1:
            return None
        first = int(position * starts) * self.config.ticks_per_step
        stop = first + self._ticks
        end = times[stop] if stop < len(times) else times[-1] + np.timedelta64(1, "s")
        return times[first], end


def _assets(config: OrderExecutionConfig, days: IntradayData) -> Sequence[str]:
    if config.assets is not None:
        return list(config.assets)
    if config.data is None:
        return SIMULATED_ASSETS
    if isinstance(config.data, MarketData):
        return config.data.assets
    if isinstance(days, FrameIntraday):
        return days.assets
    raise ValueError("the assets of this kind of data are unknown; pass them by assets=")


def _dates(config: OrderExecutionConfig, days: IntradayData) -> Any:
    if config.days is not None:
        return [np.datetime64(day, "D") for day in config.days]
    if config.data is None:
        return SIMULATED_DAYS[np.is_busday(SIMULATED_DAYS)]
    if isinstance(config.data, MarketData):
        return config.data.calendar.sessions
    if isinstance(days, FrameIntraday):
        return days.dates
    raise ValueError("the days of this kind of data are unknown; pass them by days=")
