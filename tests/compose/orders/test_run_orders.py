"""Many orders, worked by one policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    TWAP,
    VWAP,
    Order,
    OrderCosts,
    OrderDir,
    SimulatedMinutes,
    SingleAssetOrderExecutionSimple,
    run_orders,
)
from sekai.error import DataError
from tests.compose.orders.days import order, panel

ORDERS = [
    Order(asset, 100.0 * (n + 1), OrderDir(n % 2), f"2020-01-0{day} 09:30", f"2020-01-0{day} 11:00")
    for n, (asset, day) in enumerate((a, d) for a in ("AAA", "BBB") for d in (2, 3, 4))
]


def test_every_order_is_told_of_in_its_place() -> None:
    data = panel()
    costs = OrderCosts(open_cost=0.001, close_cost=0.001)

    report = run_orders(ORDERS, data, TWAP(), progress=False, costs=costs)

    assert report.metrics["stock_id"].tolist() == [order.stock_id for order in ORDERS]
    assert report.metrics["deal_amount"] == pytest.approx([order.amount for order in ORDERS])
    for place in range(len(ORDERS)):
        own = report.fills[report.fills["order"] == place]
        assert len(own) == 90
        assert own["cost"].sum() == pytest.approx(report.metrics["cost"][place])
        assert own["value"].sum() == pytest.approx(report.metrics["trade_value"][place])


def test_processes_give_what_one_gives() -> None:
    data = panel()

    alone = run_orders(ORDERS, data, VWAP(data=data), progress=False)
    together = run_orders(ORDERS, data, VWAP(data=data), progress=False, workers=2)

    assert np.array_equal(alone.metrics, together.metrics)
    assert np.array_equal(alone.fills, together.fills)


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    run_orders(ORDERS, panel(), TWAP(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 6) for done in range(1, 7)]

    run_orders(ORDERS, panel(), TWAP())
    assert "6/6" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [1, 2])
def test_an_order_that_fails_is_the_error(workers: int) -> None:
    with pytest.raises(DataError, match="session"):
        run_orders([*ORDERS, order("08:00", "09:00")], panel(), TWAP(), progress=False,
                   workers=workers)  # fmt: skip


def test_a_simulator_of_ones_own_is_used() -> None:
    data = panel()

    def capped(which: Order) -> Any:
        return SingleAssetOrderExecutionSimple(which, data, vol_threshold=0.0)

    report = run_orders(ORDERS, None, TWAP(), progress=False, simulator_fn=capped)

    assert report.metrics["deal_amount"].tolist() == [0.0] * 6
    assert report.metrics["position"] == pytest.approx([order.amount for order in ORDERS])


def test_no_orders_give_empty_tables() -> None:
    report = run_orders([], panel(), TWAP(), progress=False)

    assert len(report.metrics) == len(report.fills) == 0
    assert report.metrics.dtype.names[-1] == "cost"  # type: ignore[index]


def test_data_or_a_simulator_is_wanted_and_not_both() -> None:
    with pytest.raises(TypeError, match="got neither"):
        run_orders(ORDERS, None, TWAP())
    with pytest.raises(TypeError, match="leave them out"):
        run_orders(ORDERS, panel(), TWAP(), simulator_fn=lambda one: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="workers"):
        run_orders(ORDERS, panel(), TWAP(), workers=0)


def test_a_report_of_many_fills_is_shown_in_a_line() -> None:
    sale = Order("SIM", 5_000, "sell", "2020-01-02 09:30", "2020-01-02 13:30")

    report = run_orders([sale], SimulatedMinutes(), TWAP(), progress=False)

    assert len(report.fills) == 240
    assert repr(report) == "OrderReport(1 orders, 240 fills, 0 notices)"
