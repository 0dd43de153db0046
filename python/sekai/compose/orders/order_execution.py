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
from sekai.compose.orders.data import (
    OrderData,
    SimulatedMinutes,
    TickFeatures,
    as_intraday,
    clock_times,
    day_or_none,
    times_of_day,
)
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
from sekai.compose.orders.state import (
    SAOEMetrics,
    SAOEState,
    deal_prices,
    price_advantage,
)
from sekai.compose.reward import Reward
from sekai.config.checked import CheckedConfig
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import DayTicks, IntradayData
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
            OrderSimulatorFactory(self.config, days),
            state_interpreter(self.config, days),
            action_interpreter(self.config),
            RandomOrders(self.config, days),
            _reward(self.config, days),
        )

    @staticmethod
    def shared_options(data: MarketData, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options that envs on parts of `data` must share: the ticks of a day."""
        if options.get("day_ticks") is not None:
            return {}
        return {"day_ticks": times_of_day(as_intraday(data))}

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


class OrderSimulatorFactory:
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


def state_interpreter(
    config: OrderExecutionConfig, days: IntradayData
) -> StateInterpreter[SAOEState, Any]:
    """State interpreter of a config."""
    if isinstance(config.state, StateInterpreter):
        return config.state
    if config.state == "full_history":
        shape = config.order_steps, resolve_day_ticks(config, days), len(config.columns)
        return FullHistoryStateInterpreter(*shape, TickFeatures(days, config.columns))
    if config.state == "current_step":
        return CurrentStepStateInterpreter(config.order_steps)
    return DummyStateInterpreter()


def action_interpreter(config: OrderExecutionConfig) -> ActionInterpreter[SAOEState, Any, float]:
    """Action interpreter of a config."""
    if isinstance(config.action, ActionInterpreter):
        return config.action
    if config.action == "categorical":
        return CategoricalActionInterpreter(config.action_values, config.order_steps)
    return TwapRelativeActionInterpreter()


def _reward(config: OrderExecutionConfig, days: IntradayData) -> Reward[SAOEState] | None:
    if config.reward is None or isinstance(config.reward, Reward):
        return config.reward
    if config.reward == "ppo":
        day_ticks = resolve_day_ticks(config, days)
        return PPOReward(config.order_steps, end_time_index=day_ticks - 1)
    kind = ShortfallReward if config.reward == "shortfall" else PAPenaltyReward
    return kind(penalty=config.penalty)


SAMPLED_DAYS = 64
"""Days that are read for the ticks of a day of a source that does not list its days."""


def resolve_day_ticks(config: OrderExecutionConfig, days: IntradayData) -> int:
    """Ticks of a day in observations: those of the config, or the times of day in the data."""
    if config.day_ticks is not None:
        return config.day_ticks
    ticks = times_of_day(days)
    if ticks is not None:
        return ticks
    if config.orders is not None:
        # Baskets are sequences of orders.
        baskets = (own if isinstance(own, Sequence) else [own] for own in config.orders)
        pairs = [(order.stock_id, order.date) for own in baskets for order in own]
    else:
        assets, dates = _assets(config, days), _dates(config, days)
        pairs = [(asset, date) for asset in assets for date in dates]
    chosen = np.unique(np.linspace(0, len(pairs) - 1, SAMPLED_DAYS).astype(np.intp))
    sampled = (day_or_none(days, *pairs[index]) for index in chosen)
    times = [clock_times(ticks.times) for ticks in sampled if ticks is not None]
    if not times:
        raise DataError(
            f"none of {len(chosen)} days has ticks; choose others by assets= and days=, or pass "
            "day_ticks="
        )
    return len(np.unique(np.concatenate(times)))


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

    day_ticks: int | None = None
    """Ticks of a day in `full_history`; no day may have more. None for the number of different
    times of day in the data."""

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
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
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
        raise self.too_short()

    @property
    def num_days(self) -> int:
        """Number of days of all assets."""
        return len(self.assets) * len(self.dates)

    def too_short(self) -> DataError:
        """Error of days with too few ticks."""
        return DataError(
            f"none of {ATTEMPTS} random days has {self.order_ticks} ticks and a price; choose "
            "others by assets= and days=, or fewer steps by order_steps="
        )

    @property
    def order_ticks(self) -> int:
        """Ticks of a random order."""
        return self.config.order_steps * self.config.ticks_per_step

    def _window(self, asset: str, date: Any, position: float) -> tuple[Any, Any] | None:
        """Start and end of whole steps in a day; None if it has too few ticks, or no price."""
        ticks = day_or_none(self.days, asset, date)
        if ticks is None or not has_prices(ticks, self.config.deal_price_type):
            return None
        times = ticks.times
        starts = (len(times) - self.order_ticks) // self.config.ticks_per_step + 1
        if starts < 1:
            return None
        first = int(position * starts) * self.config.ticks_per_step
        stop = first + self.order_ticks
        end = times[stop] if stop < len(times) else times[-1] + np.timedelta64(1, "s")
        return times[first], end


def has_prices(ticks: DayTicks, price_type: str) -> bool:
    """Return True if orders of either direction have a price on a day."""
    sides = OrderDir if price_type != "close" else (OrderDir.BUY,)
    prices = (deal_prices(ticks, price_type, side).deal_price for side in sides)
    return all(bool(((price > 0) & np.isfinite(price)).any()) for price in prices)


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
