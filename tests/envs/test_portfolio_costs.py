"""One step of each cost, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.market import Constraints, Costs, Execution, MarginAccount
from tests.envs.portfolio_worlds import Episode, World, market_of, play, settings

FREE_COSTS = {
    "proportional": 0.0, "half_spread": 0.0, "impact": 0.0, "borrow": 0.0, "financing": 0.0,
    "delisting": 0.0,
}  # fmt: skip


def trade(actions: Any, data: Any, costs: dict[str, float], **given: Any) -> Episode:
    config = settings(costs=Costs(**{**FREE_COSTS, **costs}), **given)
    return play(World(data=data, config=config, actions=np.array(actions, np.float64)))


def test_a_purchase_pays_commission_on_its_value() -> None:
    episode = trade([[0.5, 0.5]], market_of([10.0, 10.0]), {"proportional": 0.001})

    # Half of 100,000 buys 5,000 units at 10; a thousandth of 50,000 is 50.
    assert episode.fills() == [(1, 0, 5000.0, 10.0, 0.001)]
    assert episode.of("commission")[0] == 50.0
    assert episode.of("cash")[0] == 49_950.0
    assert episode.of("equity")[0] == 99_950.0
    assert episode.of("turnover")[0] == 0.5


def test_a_purchase_pays_half_the_spread() -> None:
    episode = trade([[0.5, 0.5]], market_of([10.0, 10.0]), {"half_spread": 0.002})

    assert episode.of("spread")[0] == 100.0
    assert episode.of("equity")[0] == 99_900.0


def test_every_order_pays_its_fixed_commission() -> None:
    data = market_of([[10.0, 20.0, 5.0]] * 2)
    episode = trade([[0.25, 0.5, 0.0, 0.25]], data, {"fixed": 7.0})

    assert episode.of("fixed")[0] == 14.0
    assert episode.of("equity")[0] == 99_986.0


def test_size_costs_volatility_times_the_root_of_its_share_of_volume() -> None:
    closes = [10.0, 11.0, 10.0, 10.0]
    data = market_of(closes, volume=[2000.0, 1000.0, 3000.0, 9e9])
    episode = trade([[0.5, 0.5]], data, {"impact": 2.0}, starts=2, initial_cash=10_000.0)

    # Log returns so far: 0, 0.0953101798, -0.0953101798; their standard deviation is the second.
    # 500 units of a mean volume of 2,000 have a root of 0.5; twice 0.0953101798 times that.
    assert episode.of("impact")[0] == pytest.approx(5000 * 2 * 0.09531017980432493 * 0.5, rel=1e-12)
    assert episode.of("impact")[0] == pytest.approx(476.55089902162466, rel=1e-12)


def test_size_never_costs_more_than_half() -> None:
    data = market_of([10.0, 20.0, 10.0, 10.0], volume=[1.0] * 4)
    episode = trade([[0.1, 0.9]], data, {"impact": 100.0}, starts=2)

    assert episode.of("impact")[0] == 5000.0


@pytest.mark.parametrize("participation", [None, 0.5])
def test_size_costs_half_where_nothing_traded_and_nothing_where_it_is_free(
    participation: float | None,
) -> None:
    data = market_of([10.0] * 4, volume=[np.nan, np.nan, np.nan, 1e9])
    execution = Execution(participation=participation)
    costly, free = (
        trade([[0.1, 0.9]], data, {"impact": impact}, starts=2, execution=execution)
        for impact in (1.0, 0.0)
    )

    assert costly.of("impact")[0] == 5000.0
    assert free.of("impact")[0] == 0.0


def test_a_first_price_is_no_return_and_adds_nothing_to_the_cost_of_size() -> None:
    late = np.array([[np.nan], [np.nan], [50.0], [50.0], [50.0]])
    data = market_of(late, volume=np.full((5, 1), 1e6))
    episode = trade([[0.5, 0.5]], data, {"impact": 1.0}, starts=3)

    assert episode.of("impact")[0] == 0.0


def test_a_short_position_pays_its_lender_for_calendar_days() -> None:
    account = MarginAccount(leverage=2.0)
    episode = trade(
        [[-0.5, 1.5], [-0.5, 1.5]], market_of([10.0] * 3, days=73), {"borrow": 0.1},
        account=account, constraints=Constraints(long_short=True),
    )  # fmt: skip

    # 50,000 at 10 % for 73 of 365 days.
    assert episode.of("borrow").tolist() == [0.0, pytest.approx(1000.0, rel=1e-12)]


def test_debts_pay_interest_and_own_cash_earns_it() -> None:
    constraints = Constraints(max_weight=2.0, long_short=True)
    given: Any = {"account": MarginAccount(leverage=2.0), "constraints": constraints}
    rates = {"financing": 0.2, "interest": 0.05}
    data = market_of([10.0] * 3, days=73)
    debt = trade([[1.5, -0.5]] * 2, data, rates, **given)
    idle = trade([[0.0, 1.0]] * 2, data, rates, **given)
    short = trade([[-0.5, 1.5]] * 2, data, rates, **given)

    # In the first row cash earns 5 % for a fifth of a year: 100,000 becomes 101,000.
    assert idle.of("financing") == pytest.approx([-1000.0, -1010.0])
    # Then half of 101,000 is owed at 20 % for a fifth of a year.
    assert debt.of("financing") == pytest.approx([-1000.0, 2020.0])
    # What was taken in for the short sale earns nothing: 151,500 of cash, and 50,500 short.
    assert short.of("financing") == pytest.approx([-1000.0, -1010.0])


def test_a_delisting_loses_its_share_of_the_last_price() -> None:
    closes = np.array([[10.0, 5.0], [10.0, 5.0], [12.0, 5.0], [np.nan, 5.0]])
    listed = np.array([[True, True]] * 3 + [[False, True]])
    data = market_of(closes, listed=listed)
    stay = [[0.5, 0.0, 0.5]] + [[0.6 / 1.1, 0.0, 0.5 / 1.1]] * 2
    episode = trade(stay, data, {"delisting": 0.3})

    # 5,000 units bought at 10, last seen at 12: 60,000, of which 18,000 are lost.
    assert episode.of("delisting").tolist() == [0.0, 0.0, pytest.approx(18_000.0)]
    assert episode.of("equity")[-1] == pytest.approx(92_000.0)
    assert episode.of("cash")[-1] == episode.of("equity")[-1]


@pytest.mark.parametrize("draw", range(40))
def test_who_lost_everything_but_what_rounding_left_is_ruined(draw: int) -> None:
    rng = np.random.default_rng(draw)
    closes = np.vstack([rng.uniform(5, 500, (3, 3)), np.full((1, 3), np.nan)])
    listed = np.isfinite(closes)
    weights = np.append(rng.dirichlet(np.ones(3)), 0.0)
    costs = {"delisting": 1.0, "proportional": 0.01, "half_spread": 0.0005}
    episode = trade([weights] * 4, market_of(closes, listed=listed), costs, initial_cash=1000.0)

    assert abs(episode.of("equity")[-1]) < 1e-9
    assert episode.terminated


def test_orders_fill_at_the_open_and_are_marked_at_the_close() -> None:
    data = market_of([10.0, 12.0], open_=[10.0, 8.0])
    opened = trade([[1.0, 0.0]], data, {})
    closed = trade([[1.0, 0.0]], data, {}, execution=Execution(fill="next_close"))

    assert opened.of("equity")[0] == 150_000.0
    assert closed.of("equity")[0] == 100_000.0


def test_what_volume_cannot_fill_is_dropped_or_carried() -> None:
    data = market_of([10.0] * 5, volume=[1000.0] * 5)
    halts = np.array([True, True, False, True, True])[:, None]
    data = data.replace(tradable=halts)
    wish = [[0.5, 0.5]] * 2 + [[0.5, 0.5]] * 2
    fills = {
        unfilled: [
            (row, units)
            for row, _, units, _, _ in trade(
                wish,
                data,
                {},
                execution=Execution(participation=0.5, unfilled=unfilled),
            ).fills()
        ]
        for unfilled in ("drop", "carry")
    }

    # Decided on rows 0, 1 and 3; nothing can be decided on row 2, nor filled there.
    assert fills["drop"] == [(1, 500.0), (4, 500.0)]
    assert fills["carry"] == [(1, 500.0), (3, 500.0), (4, 500.0)]
