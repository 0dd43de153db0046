"""Orders beyond the volume of the market are noted: in infos, reports and evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import TWAP, ComposedOrderExecution, Order, run_orders
from sekai.evaluation import evaluate
from tests.compose.orders.days import DATE, order, panel

DATA = panel(3)
VOLUME = float(DATA.values[:240, 0, 1].sum())
HUGE = order("09:30", "15:00", amount=10 * VOLUME)
SMALL = order("09:30", "15:00", amount=0.5 * VOLUME)


def worked(env: Any) -> Any:
    result = env.reset(seed=0)
    while not getattr(result, "terminated", False):
        result = env.step(np.float32(1.0))
    return result


def options(*orders: Order, **settings: Any) -> dict[str, Any]:
    return {"data": DATA, "orders": list(orders), "order_steps": 8, **settings}


@pytest.mark.parametrize("kind", ["native", "composed"])
def test_the_log_of_an_order_says_that_it_exceeds_the_volume(kind: str) -> None:
    settings = options(HUGE, action="twap_relative")
    env = sekai.make("OrderExecution-v0", **settings)
    if kind == "composed":
        env = ComposedOrderExecution(**settings)

    log = worked(env).info["log"]

    assert log["notice"][1].startswith(
        f"order of {10 * VOLUME:,.0f} is 10.0 times the market volume of {VOLUME:,.0f}"
    )
    assert "vol_threshold" in log["notice"][1]


def test_an_order_within_the_volume_has_no_notice() -> None:
    env = sekai.make("OrderExecution-v0", **options(SMALL, action="twap_relative"))

    assert "notice" not in worked(env).info["log"]


def test_a_batch_says_it_in_the_final_info() -> None:
    with sekai.make_vec("OrderExecution-v0", 2, **options(HUGE)) as vec:
        vec.reset(seed=0)
        result = vec.step(np.array([6, 6]))

    assert "times the market volume" in result.infos[1]["final_info"]["log"]["notice"][1]


def test_a_basket_marks_its_orders() -> None:
    other = Order("BBB", 10.0, "sell", f"{DATE} 09:30", f"{DATE} 15:00")
    settings: dict[str, Any] = {"data": DATA, "orders": [[HUGE, other]], "order_steps": 8}
    env: Any = sekai.make("BasketExecution-v0", action="twap_relative", **settings)

    first = env.reset(seed=0).info
    result = first
    done = False
    while not done:
        step = env.step(np.ones(2, np.float32))
        result, done = step.info, step.terminated

    assert first["exceeds_volume"].tolist() == [False, False]
    assert result["exceeds_volume"].tolist() == [True, False]
    assert result["market_volume"][0] == VOLUME


@pytest.mark.parametrize("workers", [1, 2])
def test_a_report_notes_the_orders_that_exceed_the_volume(workers: int) -> None:
    report = run_orders([SMALL, HUGE, SMALL], DATA, TWAP(), progress=False, workers=workers)

    assert list(report.notices) == [1]
    assert "10.0 times the market volume" in report.notices[1]


def test_a_capped_order_is_noted_too() -> None:
    report = run_orders([HUGE], DATA, TWAP(), progress=False, vol_threshold=0.1)

    assert report.metrics["ffr"] == pytest.approx(0.01)
    assert "10.0 times the market volume" in report.notices[0]


@pytest.mark.parametrize("id", ["OrderExecution-v0", "BasketExecution-v0"])
def test_an_evaluation_flags_orders_that_exceed_the_volume(id: str) -> None:
    flags = []
    for amount in (0.1 * VOLUME, 20 * VOLUME):
        settings = {"data": DATA, "amount": (amount, amount), "action": "twap_relative"}
        found = evaluate("twap", id, seeds=8, env_options=settings, baselines=["random"],
                         sensitivity=False)  # fmt: skip
        flags.append({flag.name: flag.message for flag in found.flags})
        assert found.agent.metrics["participation"].value > 0

    assert "exceeds_volume" not in flags[0]
    assert flags[1]["exceeds_volume"].startswith("8 of 8 episodes fill more than the market traded")
    assert "vol_threshold" in flags[1]["exceeds_volume"]
