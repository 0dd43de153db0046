"""Order renderer: charts equal the recorded fills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import OrderRenderer
from sekai.compose.orders.order_renderer import running_prices, step_fills


def worked(actions: list[int], **settings: Any) -> Any:
    """Simulator of an executed order."""
    env: Any = sekai.make("OrderExecution-v0", **settings)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env.unwrapped.simulator


def axes_of(simulator: Any) -> list[Any]:
    """The charts of a picture: prices, volume, what is left, and the own share."""
    from matplotlib.figure import Figure

    figure = Figure()
    OrderRenderer(320, 400).draw(simulator, figure)
    return figure.axes


def test_averages_are_those_of_the_ticks_so_far() -> None:
    state = worked([1, 2]).get_state()
    vwap, twap = running_prices(state)
    known = slice(state.first_tick, state.cur_tick)
    price, volume = state.backtest_data.deal_price[known], state.backtest_data.volume[known]

    assert len(vwap) == len(twap) == 60
    assert twap[-1] == pytest.approx(price.mean())
    assert vwap[-1] == pytest.approx((price * volume).sum() / volume.sum())
    assert vwap[0] == twap[0] == price[0]


def test_a_step_that_traded_is_one_mark_at_its_average_price() -> None:
    state = worked([1, 0, 2]).get_state()
    ticks, prices, amounts = step_fills(state)
    fills = state.history.fills()

    assert amounts == pytest.approx(state.order.amount * np.array([1, 2]) / 6)
    assert ticks == pytest.approx([14.5, 74.5])
    assert prices[0] == pytest.approx(fills["price"][:30].mean())
    assert prices[1] == pytest.approx(fills["price"][60:].mean())


def test_before_the_first_step_nothing_is_filled() -> None:
    state = worked([]).get_state()

    assert [len(column) for column in step_fills(state)] == [0, 0, 0]
    assert [len(column) for column in running_prices(state)] == [0, 0]


@pytest.mark.parametrize(("direction", "mark"), [("buy", "bought"), ("sell", "sold")])
def test_what_is_left_is_drawn_beside_an_even_order(direction: str, mark: str) -> None:
    simulator = worked([1, 0, 2], direction=direction)
    prices, volume, left, shares = axes_of(simulator)
    line, evenly = left.get_lines()

    assert line.get_ydata()[-1] == pytest.approx(simulator.position)
    assert evenly.get_ydata()[-1] == 0
    assert len(prices.get_lines()[0].get_xdata()) == simulator.get_state().cur_tick
    sizes = {name: len(each.get_offsets()) for name, each in zip(
        ("bought", "sold"), prices.collections, strict=True)}  # fmt: skip
    assert sizes == {"bought": 0, "sold": 0, mark: 2}
    market = volume.patches[0].get_data().values
    share = shares.patches[0].get_data().values
    assert (share * market).sum() == pytest.approx(simulator.order.amount - simulator.position)


def test_nothing_after_now_is_drawn() -> None:
    simulator = worked([1])
    with OrderRenderer(320, 400) as renderer:
        before = renderer.render(simulator)
        now = simulator.get_state().cur_tick
        is_later = np.arange(240) >= now
        data = simulator.backtest_data
        simulator.backtest_data = replace(
            data, deal_price=np.where(is_later, 3.0, 1.0) * data.deal_price,
            volume=np.where(is_later, 3.0, 1.0) * data.volume,
        )  # fmt: skip

        assert np.array_equal(renderer.render(simulator), before)
