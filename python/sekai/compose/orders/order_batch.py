"""Native batch of order execution: many orders at work in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderExecutionBatch, OrderSummary, OrderTable
from sekai.compose.logs.collector import LogLevel
from sekai.compose.orders.composed import OrderSimulatorFactory, action_interpreter
from sekai.compose.orders.config import OrderExecutionConfig
from sekai.compose.orders.data import SimulatedMinutes, day_or_none, earlier_days
from sekai.compose.orders.features import TickFeatures
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.random_orders import has_prices, resolve_day_ticks, window_times
from sekai.compose.orders.simulators import OrderSimulator, simple_limits
from sekai.compose.orders.state import (
    deal_prices,
    price_advantage,
    summary_metrics,
    volume_notice,
)
from sekai.core.result import ResetResult, StepResult
from sekai.data.frame_intraday import FrameIntraday
from sekai.data.intraday import DayTicks, IntradayData
from sekai.data.market_data import MarketData
from sekai.envs.native_env import BatchWrapper
from sekai.error import DataError

__all__ = ["INFO", "OrderBatch", "TickTable", "native_batch", "shared_table"]

INFO = {name: column for column, name in enumerate(OrderExecutionBatch.info_names())}
"""Column of each number of an order in the infos of the native batch."""

REWARD_TERMS = {"shortfall": "reward/shortfall", "pa_penalty": "reward/pa"}
"""Name of the logged term of each reward that has a penalty."""

GIVEN = ("ticks", "direction", "amount", "first", "stop")
"""Numbers that tell a given order from others."""

Draws = Callable[["TickTable"], dict[str, Any]]
"""Reads the orders of episodes into a table; returns them by the index of their ticks."""


class TickTable:
    """Ticks, features and orders of all episodes of a native batch, read once.

    Args:
        config: settings of the env.
        days: source of ticks.
        draws: reads the orders.
    """

    def __init__(self, config: OrderExecutionConfig, days: IntradayData, draws: Draws) -> None:
        self.config, self.days = config, days
        self.native = OrderTable()
        self.ticks: list[DayTicks] = []
        """Ticks by their index in the native table."""
        is_full = config.state == "full_history"
        self.features = TickFeatures(days, config.columns) if is_full else None
        needs_day = is_full or config.reward == "ppo"
        self.day_ticks = resolve_day_ticks(config, days) if needs_day else 1
        self._given: dict[tuple[float, ...], Order] = {}
        self._feature_rows: dict[tuple[str, np.datetime64], int] = {}
        self._indices: dict[tuple[str, np.datetime64, int], int] = {}
        self.draws = draws(self)
        """Orders of episodes: arguments of the native batch."""

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

    def add_order(self, order: Order) -> tuple[Any, ...]:
        """Add a given order: index of its ticks, direction, amount and window."""
        state = OrderSimulatorFactory(self.config, self.days)(order).get_state()
        ticks = self.add(state.backtest_data.ticks)
        buys = order.direction is OrderDir.BUY
        given = (ticks, buys, order.amount, state.first_tick, state.stop_tick)
        self._given[given] = order
        return given

    def order(self, values: Mapping[str, float]) -> Order:
        """Order of these numbers of an info."""
        given = self._given.get(tuple(values[name] for name in GIVEN))
        if given is not None:
            return given
        ticks = self.ticks[int(values["ticks"])]
        window = window_times(ticks.times, int(values["first"]), int(values["stop"]))
        return Order(ticks.stock_id, values["amount"], int(values["direction"]), *window)

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
            if len(ticks) > self.day_ticks:
                raise DataError(
                    f"{ticks.stock_id} has {len(ticks)} ticks on {ticks.times[0].astype('M8[D]')}, "
                    f"more than day_ticks={self.day_ticks}; raise it"
                )
            rows = self.features.rows(ticks)
            self._feature_rows[key] = self.native.add_features(np.ascontiguousarray(rows))
        return self._feature_rows[key]


_tables: WeakValueDictionary[Any, TickTable] = WeakValueDictionary()


def shared_table(config: OrderExecutionConfig, days: IntradayData, draws: Draws) -> TickTable:
    """Table of a config; envs of equal configs share it while one of them is in use."""
    key = _table_key(config)
    table = None if key is None else _tables.get(key)
    if table is None:
        table = TickTable(config, days, draws)
        if key is not None:
            _tables[key] = table
    return table


def _table_key(config: OrderExecutionConfig) -> Any:
    """Key of a table; None for data that may change, or a config with unhashable values."""
    unchanging = (SimulatedMinutes, MarketData, FrameIntraday, DayTicks)
    if not (config.data is None or isinstance(config.data, unchanging)):
        return None
    try:
        hash(config)
    except TypeError:
        return None
    return type(config), config


def native_batch(
    table: TickTable,
    num_envs: int,
    num_threads: int | None,
    max_episode_steps: int | None,
    *,
    basket: int | None = None,
) -> OrderExecutionBatch:
    """Native batch of the orders of a table; `basket` is the number of orders of an episode."""
    config = table.config
    settings = {
        **asdict(config.costs),
        "ticks_per_step": config.ticks_per_step,
        "order_steps": config.order_steps,
        "day_ticks": table.day_ticks,
        "columns": len(config.columns),
        "state": config.state,
        "shares": getattr(action_interpreter(config), "action_values", None),
        "reward": config.reward,
        "penalty": 0.0 if config.reward == "ppo" else config.penalty,
        "amount": tuple(map(float, config.amount)),
        "buys": None if config.direction is None else config.direction == "buy",
        "basket": basket,
    }
    return OrderExecutionBatch(
        table.native, settings, num_envs, num_threads, max_episode_steps, **table.draws
    )


def _floats(values: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(values, np.float64)


class OrderBatch(BatchWrapper):
    """Native batch whose infos are those of `OrderExecution`.

    Args:
        batch: the batch.
        table: ticks of its orders.
    """

    batch: OrderExecutionBatch

    def __init__(self, batch: OrderExecutionBatch, table: TickTable) -> None:
        super().__init__(batch)
        self.table = table
        self._shows_nothing = table.config.state == "dummy"

    def reset(self, ids: Any, seeds: Any, observations: Any, options: Any) -> None:
        """Reset the envs `ids`."""
        super().reset(ids, seeds, {} if self._shows_nothing else observations, options)
        if self._shows_nothing:
            observations[ids] = 1

    def step(
        self,
        actions: Any,
        observations: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        final_observations: Any,
        skip: Any,
    ) -> None:
        """Step all envs except those where `skip` is true."""
        shown, finals = observations, final_observations
        if self._shows_nothing:
            shown, finals = {}, None if final_observations is None else {}
        super().step(actions, shown, rewards, terminated, truncated, finals, skip)
        if self._shows_nothing:
            observations[...] = 1
            if final_observations is not None:
                final_observations[...] = 1

    def reset_one(self, seed: int | None = None) -> ResetResult[Any]:
        """Start an episode of a batch of one."""
        result = self.batch.reset_one(seed)
        return ResetResult(self._shown(result.observation), self._info(result.info))

    def step_one(self, action: Any) -> StepResult[Any]:
        """Step a batch of one."""
        result = self.batch.step_one(action)
        shown, info = self._shown(result.observation), self._info(result.info)
        return StepResult(shown, result.reward, result.terminated, result.truncated, info)

    def infos(self) -> Mapping[str, Any]:
        """Infos of `EnvWrapper`; logs are built when they are read."""
        return self._columns(self.batch.order_infos())

    def final_infos(self) -> Mapping[str, Any]:
        """Infos of episodes that the last step ended."""
        return self._columns(self.batch.final_order_infos())

    def simulator(self, env: int = 0, order: int = 0) -> OrderSimulator:
        """Copy of the simulator of an order: stepping it changes nothing here.

        Raises:
            ResetRequired: no episode has begun.
        """
        matcher, config = self.batch.matcher(env, order), self.table.config
        values = _named(self.batch.order_infos()[env, order])
        own, ticks = self.table.order(values), self.table.ticks[int(values["ticks"])]
        data = deal_prices(ticks, config.deal_price_type, own.direction)
        window = int(values["first"]), int(values["stop"])
        return OrderSimulator(own, data, window, config.ticks_per_step, matcher=matcher)

    def _shown(self, observation: Any) -> Any:
        """Observation of a batch of one."""
        if self._shows_nothing:
            return 1
        # A number of a Discrete space, not an array.
        observation["acquiring"] = observation["acquiring"][()]
        return observation

    def _info(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Info of a batch of one, from the numbers of its order."""
        return {"log": self._log(values), "aux_info": {}, "exhausted": False}

    def _columns(self, numbers: NDArray[np.float64]) -> Mapping[str, Any]:
        rows = np.arange(len(numbers))
        return {
            "log": _InfoRows(rows, lambda row: self._log(_named(numbers[row, 0]))),
            "aux_info": _InfoRows(rows, lambda row: {}),
            "exhausted": np.zeros(len(numbers), np.bool_),
        }

    def _log(self, values: Mapping[str, float]) -> dict[str, tuple[int, Any]]:
        """Log of the last step of an order; empty before the first."""
        if not values["steps"]:
            return {}
        log = self._order_log(values) if values["done"] else {}
        kind = REWARD_TERMS.get(str(self.table.config.reward))
        if kind is not None:
            log[kind] = values["advantage"]
            log["reward/penalty"] = 0.0 - values["penalty"]
        if values["done"]:
            log["steps_per_episode"] = values["steps"]
        log["reward"] = values["reward"]
        return {name: (LogLevel.PERIODIC, value) for name, value in log.items()}

    def _order_log(self, values: Mapping[str, float]) -> dict[str, Any]:
        """Metrics of a whole order, with the price advantage over the mean price until its end."""
        ticks = self.table.ticks[int(values["ticks"])]
        direction = OrderDir(int(values["direction"]))
        sums = OrderSummary(
            wanted=values["requested"],
            filled=values["filled"],
            value=values["value"],
            cost=values["cost"],
            market_volume=values["market_volume"],
            market_price=values["market_price"],
        )
        key, amounts = (ticks.stock_id, direction), (values["ordered"], values["position"])
        metrics = summary_metrics(
            *key, values["amount"], ticks.times[0], amounts, values["twap_price"], sums
        )
        pa = price_advantage(metrics.trade_price, metrics.market_price, direction)
        notice = volume_notice(values["amount"], metrics)
        noted = {} if notice is None else {"notice": notice}
        return {**dict(metrics.items()), "pa": pa, **noted}


def _named(numbers: NDArray[np.float64]) -> dict[str, float]:
    """Numbers of an order by name."""
    return dict(zip(INFO, numbers.tolist(), strict=True))


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
