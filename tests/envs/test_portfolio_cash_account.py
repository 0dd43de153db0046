"""Cash accounts have no debt: costs beyond their cash are waived."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.envs import AccountReport
from sekai.market import CashAccount, Constraints, Costs, Execution
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import (
    KINDS,
    Episode,
    World,
    env_of,
    holdings,
    market_of,
    play,
    settings,
)
from tests.envs.reference_market import ReferenceMarket

FREE = {"proportional": 0.0, "half_spread": 0.0, "impact": 0.0, "delisting": 0.0}
fees = st.builds(
    Costs,
    proportional=st.floats(0.0, 0.5),
    half_spread=st.floats(0.0, 0.5),
    fixed=st.sampled_from([0.0, 1.0, 20.0, 300.0]),
    delisting=st.floats(0.0, 1.0),
    interest=st.sampled_from([0.0, 0.04]),
)


@given(data=st.data(), costs=fees, cash=st.sampled_from([50.0, 1e3, 1e5]))
@examples(200)
def test_cash_never_falls_below_zero_whatever_orders_cost(
    data: st.DataObject, costs: Costs, cash: float
) -> None:
    world = data.draw(
        worlds(
            costs=costs, decisions="every_row", ruin=0.0, initial_cash=cash,
            account=CashAccount(), constraints=Constraints(),
        )
    )  # fmt: skip

    episode = play(world)

    rounding = 1e-9 * np.maximum.accumulate(np.append(cash, episode.of("gross")))[1:]
    assert (episode.of("cash") >= -np.maximum(rounding, 1e-9 * cash)).all()
    moved = np.zeros(len(world.data))
    for row, _, units, price, _ in episode.fills():
        moved[row] -= units * price
    _, after = holdings(world, episode)
    marks = ReferenceMarket(world.data, world.config).marks
    gone = np.where(world.data.listed[1:], 0.0, (after * marks)[:-1]).sum(axis=1)
    moved[1:] += gone
    rows = episode.of("time_index").astype(int)
    paid = sum(episode.of(kind) for kind in KINDS)
    wanted = cash + np.cumsum(moved[rows] - paid)
    scale = 1e-9 * max(cash, float(episode.of("gross").max()), float(np.abs(moved).max()))
    np.testing.assert_allclose(episode.of("cash"), wanted, rtol=0, atol=scale)


def sale(initial_cash: float, weight: float, **costs: float) -> Episode:
    """A purchase at 10, and at 1 an order to sell all of it."""
    data = market_of([10.0, 12.0, 10.0, 10.0, 1.0], volume=[1e6] * 5)
    config = settings(costs=Costs(**{**FREE, **costs}), initial_cash=initial_cash, starts=2)
    actions = np.array([[weight, 1.0 - weight], [0.0, 1.0]])
    return play(World(data=data, config=config, actions=actions))


def test_a_sale_that_neither_its_proceeds_nor_cash_pay_for_is_refused() -> None:
    episode = sale(60.0, 1.0, fixed=20.0)

    # 20 of 60 are paid for the purchase of 4 units, which are worth 4 in the end.
    assert [row for row, *_ in episode.fills()] == [3]
    assert episode.of("cash").tolist() == [0.0, 0.0]
    assert episode.of("refused")[-1] == pytest.approx(4.0)
    assert episode.of("cost")[-1] == 0.0
    assert episode.of("equity")[-1] == pytest.approx(4.0)


def test_a_sale_that_costs_more_than_it_brings_is_made_where_cash_pays() -> None:
    episode = sale(100.0, 0.4, fixed=20.0)

    assert [row for row, *_ in episode.fills()] == [3, 4]
    assert episode.of("cash")[-1] == pytest.approx(100 - 40 - 20 + 4 - 20)
    assert episode.of("refused")[-1] == 0.0


def test_a_sale_at_a_rate_above_its_price_is_refused_too() -> None:
    episode = sale(100.0, 1.0, proportional=0.5, half_spread=0.5, impact=1.0)

    assert [row for row, *_ in episode.fills()] == [3]
    assert (episode.of("cash") >= 0.0).all()
    assert episode.of("refused")[-1] > 0.0


@pytest.mark.parametrize(
    ("initial_cash", "sold", "cash", "refused"),
    [
        # One unit of each asset is held: no sale pays its commission of 10, and there is no cash.
        (60.0, [], 0.0, 13.0),
        # 10 in cash pay for the sales that lack 1 and 7, and not for the one that lacks 9.
        (70.0, [1, 2], 2.0, 1.0),
    ],
)
def test_the_dearest_sales_are_refused_first(
    initial_cash: float, sold: list[int], cash: float, refused: float
) -> None:
    data = market_of([[10.0, 10.0, 10.0]] * 2 + [[1.0, 3.0, 9.0]])
    config = settings(costs=Costs(**{**FREE, "fixed": 10.0}), initial_cash=initial_cash)
    bought = np.full(3, 10.0 if initial_cash == 70.0 else 20.0) / initial_cash
    actions = np.array([[*bought, 1.0 - bought.sum()], [0.0, 0.0, 0.0, 1.0]])

    episode = play(World(data=data, config=config, actions=actions))

    assert [asset for row, asset, *_ in episode.fills() if row == 2] == sold
    assert episode.of("cash")[-1] == pytest.approx(cash)
    assert episode.of("refused")[-1] == pytest.approx(refused)


def test_purchases_that_cash_does_not_pay_for_are_reported_as_refused() -> None:
    data = market_of([10.0, 10.0])
    config = settings(costs=Costs(**{**FREE, "proportional": 0.25}), initial_cash=100.0)

    episode = play(World(data=data, config=config, actions=np.array([[1.0, 0.0]])))

    assert episode.of("gross")[0] == pytest.approx(80.0)
    assert episode.of("refused")[0] == pytest.approx(20.0)


def test_a_debt_that_a_broker_reports_costs_a_cash_account_nothing_more() -> None:
    data = market_of([10.0] * 4)
    costs = Costs(**{**FREE, "financing": 0.365})
    env = env_of(
        data, costs=costs, execution=Execution(sizing="decision"), initial_cash=1e3,
        record=True,
    )  # fmt: skip
    env.reset(seed=0)
    stay = np.array([0.0, 1.0])
    env.report(AccountReport(cash=-100.0, units={"A0": 50.0}))

    env.step(stay)
    env.step(np.array([1.0, 0.0]))

    (log,) = env.take_log()
    assert log.costs["financing"] == 0.0
    assert log.steps.waived == pytest.approx([0.0, 0.1])
