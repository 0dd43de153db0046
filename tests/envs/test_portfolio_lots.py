"""Whole shares and lots: orders are rounded towards the position held."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sekai
from sekai.data import Bar, simulate_gbm
from sekai.live.paper.account import PaperAccount
from sekai.market import CashAccount, Constraints, Costs, Execution, MarginAccount
from tests.envs.portfolio_draws import examples, worlds
from tests.envs.portfolio_worlds import FREE, World, holdings, market_of, play, settings
from tests.envs.test_portfolio_money import gains

lot_sizes = st.sampled_from([1.0, 100.0, 0.001, {"A0": 10.0, "default": 1.0}])


def with_lots(world: World, lots: Any) -> World:
    execution = replace(world.config.execution, lot_size=lots)
    return replace(world, config=replace(world.config, execution=execution))


def lots_of(world: World) -> Any:
    lots: Any = world.config.execution.lot_size
    if not isinstance(lots, dict):
        return np.full(len(world.data.assets), lots)
    return np.array([lots.get(name, lots["default"]) for name in world.data.assets])


@given(world=worlds(max_agents=2), lots=lot_sizes)
@examples(40)
def test_positions_are_whole_lots_in_every_row(world: World, lots: Any) -> None:
    world = with_lots(world, lots)
    episode = play(world)
    for agent in range(len(world.agents)):
        _, after = holdings(world, episode, agent)
        count = after / lots_of(world)

        assert (np.abs(count - np.round(count)) <= 1e-6 * np.maximum(1.0, np.abs(count))).all()


@given(world=worlds(account=CashAccount(), constraints=Constraints()), lots=lot_sizes)
@examples(30)
def test_a_cash_account_with_lots_owes_nothing(world: World, lots: Any) -> None:
    episode = play(with_lots(world, lots))

    worth = np.maximum.accumulate(np.maximum(episode.of("equity"), 0.0))
    assert (episode.of("cash") >= -1e-9 * worth).all()
    assert (episode.weights()[:, :-1] >= -1e-9).all()


@given(world=worlds(decisions="every_row"), lots=lot_sizes)
@examples(30)
def test_equity_changes_by_price_moves_less_costs(world: World, lots: Any) -> None:
    world = with_lots(world, lots)
    episode = play(world)
    equity = np.append(world.config.initial_cash, episode.of("equity"))

    wanted = gains(world, episode) - episode.of("cost")
    scale = np.maximum(np.abs(equity[:-1]), episode.of("gross"))
    assert (np.abs(np.diff(equity) - wanted) <= 1e-9 * np.maximum(scale, np.abs(wanted))).all()


@given(world=worlds(decisions="every_row"), lots=lot_sizes)
@examples(30)
def test_the_first_fills_are_never_larger_than_without_lots(world: World, lots: Any) -> None:
    execution = replace(world.config.execution, delay=0)
    world = replace(world, config=replace(world.config, execution=execution))
    free, whole = play(world), play(with_lots(world, lots))
    first = world.config.starts + 1  # type: ignore[operator]
    wanted = {asset: units for row, asset, units, _, _ in free.fills() if row == first}
    for row, asset, units, _, _ in whole.fills():
        if row == first:
            assert units * wanted[asset] > 0
            # Where cash is short all purchases are cut alike, and smaller ones are cut less.
            requested = whole.of("refused")[0] == 0.0 == free.of("refused")[0]
            assert not requested or abs(units) <= abs(wanted[asset]) * (1 + 1e-9)


def run(actions: Any, data: Any, lots: Any = 1.0, **given: Any) -> Any:
    execution = Execution(lot_size=lots, **given.pop("execution", {}))
    config = settings(execution=execution, **given)
    return play(World(data=data, config=config, actions=np.array(actions, np.float64)))


def test_the_rest_of_a_purchase_stays_in_cash() -> None:
    episode = run([[0.5, 0.5]], market_of([333.0] * 2))

    # 50,000 / 333 is 150.15.
    assert [units for _, _, units, _, _ in episode.fills()] == [150.0]
    assert episode.of("cash")[0] == 100_000.0 - 150 * 333.0


def test_sizes_can_differ_between_assets() -> None:
    data = market_of([[10.0, 10.0, 10.0]] * 2)
    episode = run([[0.2, 0.2, 0.2, 0.4]], data, {"A0": 300.0, "A1": 7.0, "default": 2000.0})

    assert [units for _, _, units, _, _ in episode.fills()] == [1800.0, 1995.0, 2000.0]


def test_a_purchase_is_cut_to_whole_lots_that_cash_pays() -> None:
    episode = run(
        [[1.0, 0.0]], market_of([10.0] * 2), 100.0, costs=replace(FREE, proportional=0.01)
    )

    # 100,000 / 10.1 is 9,900.99.
    assert [units for _, _, units, _, _ in episode.fills()] == [9900.0]
    assert episode.of("cash")[0] == pytest.approx(100_000 - 9900 * 10.1, abs=1e-9)


def test_volume_fills_whole_lots_and_the_rest_is_carried() -> None:
    data = market_of([10.0] * 6, volume=[999.0] * 6)
    execution = {"participation": 0.5, "unfilled": "carry", "sizing": "decision"}
    episode = run([[0.12, 0.88]] + [[0.12, 0.88]] * 3, data, 10.0, execution=execution)

    assert [units for _, _, units, _, _ in episode.fills()] == [490.0, 490.0, 220.0]


def test_closing_a_position_sells_its_odd_remainder() -> None:
    data = market_of([10.0] * 6)
    account = PaperAccount(data.rows(0, 2), execution=Execution(), costs=FREE)
    account.advance(next(Bar.each(data, 2)), {"A0": 105.5})
    whole = PaperAccount(data.rows(0, 2), execution=Execution(lot_size=10.0), costs=FREE)
    fills = [
        [fill.units for fill in whole.advance(bar, {"A0": units})]
        for bar, units in zip(Bar.each(data, 2), (105.5, -37.0, -1e9), strict=False)
    ]

    assert account.units == {"A0": 105.5}
    assert fills == [[100.0], [-30.0], [-70.0]]


def test_a_margin_call_sells_enough_whole_lots() -> None:
    data = market_of([10.0, 10.0, 7.0, 7.0, 7.0], open_=[10.0, 10.0, 10.0, 7.0, 7.0])
    config: Any = {
        "account": MarginAccount(leverage=2.0, maintenance=0.4),
        "constraints": Constraints(max_weight=2.0, long_short=True),
    }
    hold = [[2.0, -1.0]] * 4
    fractional = run(hold, data, 1e-6, **config)
    whole = run(hold, data, 700.0, **config)

    # 20,000 units fall to 140,000 with equity of 40,000: exposure must fall to 80,000.
    sold = [units for row, _, units, _, _ in fractional.fills() if row == 3]
    assert sold == pytest.approx([80_000 / 7 - 20_000], rel=1e-6)
    (units,) = [units for row, _, units, _, _ in whole.fills() if row == 3]
    # 28 lots were bought: equity of 41,200 allows 82,400, which is 11,771 of 19,600 units.
    assert units == -12 * 700.0
    assert not whole.of("margin_call")[-1]


@pytest.mark.parametrize("delay", [0, 2])
def test_orders_of_a_live_env_are_whole_lots(delay: int) -> None:
    data = simulate_gbm(3, 60, seed=5)
    env: Any = sekai.make(
        "Portfolio-v0", data=data.rows(0, 50), features=["log_return"], lookback=2, stream=True,
        execution=Execution(sizing="decision", lot_size=7.0, delay=delay),
    ).unwrapped  # fmt: skip
    env.reset(seed=0)
    account = PaperAccount.like(env)
    rng = np.random.default_rng(0)
    for bar in Bar.each(data, 50):
        weights = rng.dirichlet(np.ones(4))
        orders = env.orders(weights)
        assert np.array_equal(np.nan_to_num(orders) % 7.0, np.zeros(3))
        units = dict(zip(env.assets, orders, strict=True))
        account.advance(bar, {name: n for name, n in units.items() if not np.isnan(n)})
        env.push(bar)
        result = env.step(weights)
        assert result.info["cash"] == account.cash
    assert sum(account.units.values()) > 0


def test_a_lot_must_be_above_zero() -> None:
    data = market_of([[10.0, 20.0]] * 3)
    for lots, words in (
        (0.0, "lot_size above 0, got 0"),
        ({"A0": 1.0, "A1": -2.0}, "lot_size above 0, got -2"),
        ({"B": 1.0, "default": 1.0}, "unknown asset 'B' in lot_size"),
    ):
        with pytest.raises(ValueError, match=words):
            sekai.make("Portfolio-v0", data=data, lookback=1, execution=Execution(lot_size=lots))


def test_vectorbt_trades_the_same_whole_lots() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vectorbt = pytest.importorskip("vectorbt")
    rng, rows, assets = np.random.default_rng(3), 60, 4
    closes = 40.0 * np.exp(np.cumsum(rng.normal(0, 0.02, (rows, assets)), axis=0))
    weights = 0.8 * rng.dirichlet(np.ones(assets), rows - 1)
    actions = np.column_stack([weights, 1 - weights.sum(axis=1)])
    data = market_of(closes)
    costs = Costs(proportional=0.001, half_spread=0.0, impact=0.0)
    execution = {"fill": "next_close", "smallest_trade": 0.0}
    episode = run(actions, data, 5.0, costs=costs, execution=execution)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = vectorbt.Portfolio.from_orders(
            close=closes, size=np.vstack([np.full(assets, np.nan), weights]),
            size_type="targetpercent", fees=0.001, init_cash=100_000.0, cash_sharing=True,
            group_by=True, call_seq="auto", size_granularity=5.0,
        )  # fmt: skip
        cash, value = np.asarray(theirs.cash())[1:], np.asarray(theirs.value())[1:]

    np.testing.assert_allclose(episode.of("equity"), value, rtol=1e-12)
    np.testing.assert_allclose(episode.of("cash"), cash, rtol=0, atol=1e-6)
