"""Native batch of order execution: many episodes of `OrderExecution` in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderExecutionBatch, OrderTable
from sekai.backend import Backend
from sekai.compose.logs.collector import LogLevel
from sekai.compose.orders.data import TickFeatures, as_intraday, day_or_none, earlier_days
from sekai.compose.orders.interpreters import order_progress
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.order_execution import (
    OrderExecutionConfig,
    OrderSimulatorFactory,
    RandomOrders,
    action_interpreter,
    has_prices,
    resolve_day_ticks,
    state_interpreter,
)
from sekai.compose.orders.simulators import simple_limits
from sekai.compose.orders.state import deal_prices, price_advantage, summary_metrics
from sekai.core.autoreset import Autoreset
from sekai.data.intraday import DayTicks, IntradayData
from sekai.envs.native_env import resolve_config
from sekai.registry import spec
from sekai.vector.make_vec import make_vec
from sekai.vector.native import NativeVecEnv
from sekai.vector.vec_env import VecEnv

__all__ = [
    "INFO",
    "OrderBatch",
    "TickTable",
    "given_order",
    "native_settings",
    "order_execution_vec",
]

INFO = {name: column for column, name in enumerate(OrderExecutionBatch.info_names())}
"""Column of each number of an order in the infos of the native batch."""

MOST_DAYS = 50_000
"""Days of assets up to which all ticks are kept in memory; beyond, envs read them day by day."""


def order_execution_vec(
    num_envs: int,
    *,
    num_threads: int | None = None,
    max_episode_steps: int | None = None,
    autoreset: Autoreset = "same_step",
    backend: Backend = "numpy",
    copy: bool = True,
    config: OrderExecutionConfig | None = None,
    **settings: Any,
) -> VecEnv:
    """Make a vector env of `OrderExecution`: native with built-in parts, else composed.

    Own interpreters and rewards, and data of more days than fit the memory, are composed.
    """
    config = resolve_config(OrderExecutionConfig, config, settings)
    shared: dict[str, Any] = {"autoreset": autoreset, "backend": backend, "copy": copy}
    days = as_intraday(config.simulated if config.data is None else config.data)
    orders = RandomOrders(config, days)
    if not _is_native(config, orders):
        composed = replace(spec("OrderExecution-v0"), vector_entry_point=None)
        limits = {"max_episode_steps": max_episode_steps, **shared}
        return make_vec(composed, num_envs, config=config, **limits)
    table = TickTable(config, days)
    draws = _draws(config, table, orders)
    values = native_settings(config, table.day_ticks)
    native = OrderExecutionBatch(
        table.native, values, num_envs, num_threads, max_episode_steps, **draws
    )
    shows_nothing = config.state == "dummy"
    batch = OrderBatch(native, table, config.reward, shows_nothing=shows_nothing)
    observations = state_interpreter(config, days).observation_space
    return NativeVecEnv(batch, observations, action_interpreter(config).action_space, **shared)


def _is_native(config: OrderExecutionConfig, orders: RandomOrders) -> bool:
    is_built_in = isinstance(config.state, str) and isinstance(config.action, str)
    if not is_built_in or not (config.reward is None or isinstance(config.reward, str)):
        return False
    count = len(config.orders) if config.orders is not None else orders.num_days
    return count <= MOST_DAYS


def native_settings(config: OrderExecutionConfig, day_ticks: int) -> dict[str, Any]:
    """Settings of the native batch."""
    shares = None
    if config.action == "categorical":
        interpreter: Any = action_interpreter(config)
        shares = interpreter.action_values
    return {
        **asdict(config.costs),
        "ticks_per_step": config.ticks_per_step,
        "order_steps": config.order_steps,
        "day_ticks": day_ticks,
        "columns": len(config.columns),
        "state": config.state,
        "shares": shares,
        "reward": config.reward,
        "penalty": 0.0 if config.reward == "ppo" else config.penalty,
        "amount": tuple(map(float, config.amount)),
        "buys": None if config.direction is None else config.direction == "buy",
        "basket": None,
    }


class TickTable:
    """Ticks and features of all days of a native batch, read once.

    Args:
        config: settings of the env.
        days: source of ticks.
    """

    def __init__(self, config: OrderExecutionConfig, days: IntradayData) -> None:
        self.config, self.days = config, days
        self.native = OrderTable()
        self.ticks: list[DayTicks] = []
        """Ticks by their index in the native table."""
        is_full = config.state == "full_history"
        self.features = TickFeatures(days, config.columns) if is_full else None
        needs_day = is_full or config.reward == "ppo"
        self.day_ticks = resolve_day_ticks(config, days) if needs_day else 1
        self._feature_rows: dict[tuple[str, np.datetime64], int] = {}
        self._indices: dict[tuple[str, np.datetime64, int], int] = {}

    def add(self, ticks: DayTicks) -> int:
        """Add ticks of a day, or of the days of an order; return their index."""
        key = (ticks.stock_id, ticks.times[0], len(ticks.times))
        if key not in self._indices:
            self._indices[key] = self._add(ticks)
            self.ticks.append(ticks)
        return self._indices[key]

    def add_day(self, asset: str, date: np.datetime64) -> int | None:
        """Add a day of an asset; None if it has no ticks, or no price."""
        ticks = day_or_none(self.days, asset, date)
        if ticks is None or not has_prices(ticks, self.config.deal_price_type):
            return None
        return self.add(ticks)

    def _add(self, ticks: DayTicks) -> int:
        kind = self.config.deal_price_type
        sell, buy = (deal_prices(ticks, kind, side) for side in (OrderDir.SELL, OrderDir.BUY))
        sessions = getattr(ticks, "sessions", ())
        dates = ticks.times[[0, *sessions]].astype("datetime64[D]")
        features = []
        if self.features is not None:
            features = [self._session(ticks.stock_id, date) for date in dates]
        return self.native.add_ticks(
            _floats(sell.deal_price),
            None if kind == "close" else _floats(buy.deal_price),
            _floats(sell.volume),
            sessions=sessions,
            features=features,
            **simple_limits(sell, self.config.vol_threshold),
        )

    def _session(self, asset: str, date: np.datetime64) -> tuple[int, int | None]:
        """Indices of the features of a day and of the day before."""
        before = earlier_days(self.days, asset, date, 1)
        today = self._features_of(self.days.day(asset, date))
        return today, self._features_of(before[0]) if before else None

    def _features_of(self, ticks: DayTicks) -> int:
        key = (ticks.stock_id, ticks.times[0])
        if key not in self._feature_rows:
            assert self.features is not None
            rows = self.features.rows(ticks)
            self._feature_rows[key] = self.native.add_features(np.ascontiguousarray(rows))
        return self._feature_rows[key]


def _floats(values: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(values, np.float64)


def _draws(config: OrderExecutionConfig, table: TickTable, orders: RandomOrders) -> dict[str, Any]:
    """Days of random orders, or the given orders, by the index of their ticks."""
    if config.orders is None:
        days = [table.add_day(str(asset), day) for asset in orders.assets for day in orders.dates]
        if all(day is None or len(table.ticks[day]) < orders.order_ticks for day in days):
            raise orders.too_short()
        return {"candidates": days, "assets": len(orders.assets)}
    return {"orders": [[given_order(config, table, order)] for order in config.orders]}


def given_order(config: OrderExecutionConfig, table: TickTable, order: Order) -> tuple[Any, ...]:
    """Order of a native batch: index of its ticks, direction, amount and window."""
    state = OrderSimulatorFactory(config, table.days)(order).get_state()
    if config.state != "dummy":
        order_progress(state, config.order_steps, config.order_steps)  # rejects too many steps
    ticks = table.add(state.backtest_data.ticks)
    buys = order.direction is OrderDir.BUY
    return ticks, buys, order.amount, state.first_tick, state.stop_tick


class OrderBatch:
    """Native batch whose infos are those of `OrderExecution`.

    Args:
        native: the batch.
        table: ticks of its orders.
        reward: name of the reward.
        shows_nothing: the observation is a constant.
    """

    def __init__(
        self,
        native: OrderExecutionBatch,
        table: TickTable,
        reward: Any,
        *,
        shows_nothing: bool = False,
    ) -> None:
        self.native = native
        self.table = table
        self.reward = reward
        self.shows_nothing = shows_nothing
        self.num_envs = native.num_envs
        self.num_threads = native.num_threads

    def reset(self, ids: Any, seeds: Any, observations: Any, options: Any) -> None:
        """Reset envs; options are not used, as in the composed env."""
        if not self.shows_nothing:
            self.native.reset(ids, seeds, observations, None)
            return
        self.native.reset(ids, seeds, {}, None)
        observations[ids] = 1

    def step(
        self,
        actions: Any,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Any,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Step envs."""
        flags = (rewards, terminated, truncated)
        if not self.shows_nothing:
            self.native.step(actions, observations, *flags, final_observations, skip)
            return
        finals: dict[str, Any] | None = None if final_observations is None else {}
        self.native.step(actions, {}, *flags, finals, skip)
        observations[...] = 1
        if final_observations is not None:
            final_observations[...] = 1

    def clone_env(self, source: int, target: int) -> None:
        """Copy env `source` to `target`."""
        self.native.clone_env(source, target)

    def infos(self) -> Mapping[str, Any]:
        """Infos of `EnvWrapper`; logs are built when they are read."""
        return self._columns(self.native.order_infos())

    def final_infos(self) -> Mapping[str, Any]:
        """Infos of episodes that the last step ended."""
        return self._columns(self.native.final_order_infos())

    def state_dict(self) -> dict[str, Any]:
        """State of all envs."""
        return self.native.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a rejected one changes nothing."""
        self.native.load_state_dict(state)

    def _columns(self, numbers: NDArray[np.float64]) -> Mapping[str, Any]:
        rows = np.arange(len(numbers))
        return {
            "log": _InfoRows(rows, lambda row: self._log(numbers[row, 0])),
            "aux_info": _InfoRows(rows, lambda row: {}),
            "exhausted": np.zeros(len(numbers), np.bool_),
        }

    def _log(self, numbers: NDArray[np.float64]) -> dict[str, tuple[int, Any]]:
        """Log of the last step of an order; empty before the first."""
        values = dict(zip(INFO, numbers.tolist(), strict=True))
        if not values["steps"]:
            return {}
        log = self._order_log(values) if values["done"] else {}
        kind = {"shortfall": "reward/shortfall", "pa_penalty": "reward/pa"}.get(self.reward)
        if kind is not None:
            log |= {kind: values["advantage"], "reward/penalty": 0.0 - values["penalty"]}
        if values["done"]:
            log["steps_per_episode"] = values["steps"]
        log["reward"] = values["reward"]
        return {name: (LogLevel.PERIODIC, value) for name, value in log.items()}

    def _order_log(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Metrics of a whole order, with the price advantage over the mean price until its end."""
        ticks = self.table.ticks[int(values["ticks"])]
        direction, first = OrderDir(int(values["direction"])), ticks.times[0]
        order = Order(ticks.stock_id, values["amount"], direction, first, ticks.times[-1])
        sums = _Sums(
            wanted=values["requested"],
            filled=values["filled"],
            value=values["value"],
            market_volume=values["market_volume"],
            market_price=values["market_price"],
        )
        ordered, left, twap = values["ordered"], values["position"], values["twap_price"]
        metrics = summary_metrics(order, first, ordered, left, twap, sums)
        pa = price_advantage(metrics.trade_price, metrics.market_price, direction)
        return {**dict(metrics.items()), "pa": pa}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    wanted: float
    filled: float
    value: float
    market_volume: float
    market_price: float


class _InfoRows(Sequence[Any]):
    """Values of some envs, each built when it is read."""

    __slots__ = ("_make", "_rows")

    def __init__(self, rows: NDArray[np.intp], make: Callable[[int], Any]) -> None:
        self._rows = rows
        self._make = make

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            return self._make(int(self._rows[index]))
        return _InfoRows(self._rows[index], self._make)

    def __iter__(self) -> Iterator[Any]:
        return (self._make(row) for row in self._rows.tolist())
