"""Orders as the seeds of a composed env."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    CategoricalActionInterpreter,
    CurrentStepStateInterpreter,
    EnvWrapper,
    FullHistoryStateInterpreter,
    LogCollector,
    LogLevel,
    Order,
    PAPenaltyReward,
    SingleAssetOrderExecutionSimple,
    TickFeatures,
    TwapRelativeActionInterpreter,
    check_nan_observation,
)
from tests.compose.orders.days import order, panel

ORDERS = [order("09:30", "15:00"), order("10:15", "14:45", direction=0), order("13:00", "13:10")]


def env(state: Any, action: Any, level: LogLevel = LogLevel.PERIODIC) -> Any:
    data = panel()
    return EnvWrapper(
        lambda one: SingleAssetOrderExecutionSimple(one, data), state, action, ORDERS,
        PAPenaltyReward(), logger=LogCollector(level),
    )  # fmt: skip


def played(which: Any, action: Any) -> list[Any]:
    """The last result of each episode."""
    last = []
    while not which.reset(seed=0).info["exhausted"]:
        done = False
        while not done:
            result = which.step(action)
            done = result.terminated
        last.append(result)
    return last


def test_every_order_is_worked_once_and_told_of() -> None:
    which = env(CurrentStepStateInterpreter(8), TwapRelativeActionInterpreter())

    last = played(which, np.float32(1.0))

    assert len(last) == len(ORDERS)
    for given, result in zip(ORDERS, last, strict=True):
        log = {name: value for name, (_, value) in result.info["log"].items()}
        assert log["deal_amount"] == pytest.approx(given.amount)
        assert log["pa"] == pytest.approx(0.0, abs=1e-6)
        assert log["stock_id"] == "AAA"
        assert log["direction"] == given.direction
        assert {"reward/pa", "reward/penalty", "ffr", "market_price"} <= log.keys()


def test_the_end_of_the_orders_is_an_observation_of_nothing() -> None:
    features = TickFeatures(panel())
    which = env(FullHistoryStateInterpreter(8, 240, 2, features), CategoricalActionInterpreter(4))
    played(which, 4)

    assert which.exhausted
    fresh: Any = env(CurrentStepStateInterpreter(8), CategoricalActionInterpreter(4))
    for _ in ORDERS:
        assert not check_nan_observation(fresh.reset().observation)
    assert check_nan_observation(fresh.reset().observation)


def test_those_who_ask_for_everything_get_the_history() -> None:
    which = env(
        CurrentStepStateInterpreter(8), CategoricalActionInterpreter(1), level=LogLevel.DEBUG
    )

    log = played(which, 1)[0].info["log"]

    assert len(log["history_exec"][1]) == 30
    assert log["fills"][1]["filled"].sum() == pytest.approx(ORDERS[0].amount)
    assert isinstance(which.status.initial_state, Order)
