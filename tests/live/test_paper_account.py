"""A paper account fills orders exactly as the env does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sekai
from sekai.data import Bar, MarketData
from sekai.envs import Portfolio
from sekai.error import StateError
from sekai.live.paper.account import PaperAccount, PaperFill
from sekai.market import Constraints, Costs, Execution, MarginAccount
from sekai.storage.strict_json import decode_record, encode_record
from tests.data.holed_panels import make_panel
from tests.envs.streamed_worlds import LOOKBACK, episode_bytes, same, streamed, worlds

DATA = make_panel(rows=40, assets=3, seed=1, holes=0.0)
FREE = Costs(proportional=0.0, half_spread=0.0, impact=0.0, fixed=0.0)


@st.composite
def decided_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Markets with orders in units, some with margin and tilts."""
    world = draw(worlds())
    execution = world["execution"]
    fields = {name: getattr(execution, name) for name in ("fill", "delay", "unfilled")}
    share = draw(st.sampled_from([None, 0.01, 0.5]))
    smallest = draw(st.sampled_from([1e-6, 0.02]))
    world["execution"] = Execution(
        **fields, sizing="decision", participation=share, smallest_trade=smallest
    )
    if "account" in world:
        world["constraints"] = Constraints(long_short=draw(st.booleans()))
    world["action"] = draw(st.sampled_from(["weights", "weights", "tilts"]))
    return world


def chosen(rng: np.random.Generator, world: dict[str, Any], assets: int) -> NDArray[np.float64]:
    if world["action"] == "tilts":
        return rng.integers(0, 3, assets).astype(np.float64)
    kinds = [rng.dirichlet(np.ones(assets + 1)), rng.normal(0.0, 1.0, assets + 1)]
    return np.asarray(kinds[rng.integers(2)])


def named(env: Portfolio, units: NDArray[np.float64]) -> dict[str, float]:
    """Orders by asset, without NaN."""
    pairs = zip(env.assets, units.tolist(), strict=True)
    return {name: number for name, number in pairs if not np.isnan(number)}


def pass_rows(
    env: Portfolio, paper: PaperAccount, orders: dict[str, float], bars: list[Bar]
) -> None:
    """Advance the account by the rows of the next step, and report it."""
    while env.batch.waits():
        bar = bars.pop(0)
        paper.advance(bar, orders)
        env.report(paper.report())
        env.push(bar)
        orders = {}


@given(world=decided_worlds(), draw=st.data(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=80)
def test_a_session_on_paper_gives_the_same_bytes_as_an_episode(
    world: dict[str, Any], draw: st.DataObject, seed: int
) -> None:
    data = world.pop("data")
    start = draw.draw(st.integers(LOOKBACK, len(data) - 3))
    removed = draw.draw(st.none() | st.tuples(st.integers(1, 9), st.sampled_from(data.assets)))
    rows = len(data) - 1 - start
    whole = Portfolio(data=data, starts=start, episode_rows=rows, **world)
    live = Portfolio(data=data.rows(0, start + 1), stream=True, episode_rows=rows, **world)
    assume(whole.reset(seed=seed).info["time_index"] == start)
    live.reset(seed=seed)
    paper, bars = PaperAccount.like(live), list(Bar.each(data, start + 1))
    rng, is_done, steps = np.random.default_rng(seed), False, 0

    while not is_done:
        steps += 1
        if removed and steps == removed[0]:
            for one in (whole, live, paper):
                one.remove_asset(removed[1])
        action = chosen(rng, world, len(data.assets))
        pass_rows(live, paper, named(live, live.orders(action)), bars)
        expected, found = whole.step(action), live.step(action)
        assert same(expected, found)
        assert episode_bytes(whole) == episode_bytes(live)
        is_done = expected.done


@given(world=decided_worlds(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_money_goes_where_fills_and_costs_say(world: dict[str, Any], seed: int) -> None:
    data, rng = world["data"], np.random.default_rng(seed)
    options = {name: world[name] for name in ("execution", "costs", "initial_cash")}
    paper = PaperAccount(data.rows(0, 10), account=world.get("account"), **options)
    held, cash = dict.fromkeys(data.assets, 0.0), paper.cash

    for bar in Bar.each(data, 10):
        before, fills = paper.costs, paper.advance(bar, anything(rng, paper))
        if paper.is_ruined:
            break
        paid = {kind: paper.costs[kind] - before[kind] for kind in before}
        trading = sum(paid.values()) - paid["borrow"] - paid["financing"]
        assert sum(fill.cost for fill in fills) == pytest.approx(trading, abs=1e-6)
        for fill in fills:
            held[fill.asset] += fill.units
            cash -= fill.units * fill.price
        cash -= sum(paid.values())
        assert paper.cash == pytest.approx(cash, rel=1e-9, abs=1e-6)
        assert paper.units == pytest.approx(held, rel=1e-9, abs=1e-9)
        ordinary = [abs(fill.units) * fill.price for fill in fills if not fill.is_delisting]
        assert paper.traded == pytest.approx(sum(ordinary), rel=1e-9, abs=1e-9)
        if "account" not in world:
            assert min(paper.units.values()) >= 0.0
            assert paper.cash >= -1e-6


def anything(rng: np.random.Generator, paper: PaperAccount) -> dict[str, float]:
    """Random orders for some of the assets."""
    units = rng.normal(0.0, 500.0, len(paper.assets)) * rng.integers(0, 2, len(paper.assets))
    pairs = zip(paper.assets, units.tolist(), strict=True)
    return {name: number for name, number in pairs if rng.random() < 0.7}


@given(world=decided_worlds(), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_an_account_goes_on_from_its_state_to_the_last_bit(
    world: dict[str, Any], seed: int
) -> None:
    data, rng = world["data"], np.random.default_rng(seed)
    options = {name: world[name] for name in ("execution", "costs", "initial_cash")}
    first = PaperAccount(data.rows(0, 10), account=world.get("account"), **options)
    for bar in Bar.each(data, 10, 15):
        first.advance(bar, anything(rng, first))

    second = PaperAccount(data.rows(0, 10), account=world.get("account"), **options)
    second.load_state_dict(decode_record(encode_record(first.state_dict())))
    assert second.account == first.account

    for bar in Bar.each(data, 15):
        orders = anything(rng, first)
        assert first.advance(bar, orders) == second.advance(bar, orders)
        assert encode_record(first.state_dict()) == encode_record(second.state_dict())
        assert (first.costs, first.units) == (second.costs, second.units)


def an_account(**options: Any) -> tuple[PaperAccount, list[Bar]]:
    paper = PaperAccount(DATA.rows(0, 20), **{"costs": FREE, **options})
    return paper, list(Bar.each(DATA, 20))


def test_units_trade_at_the_open_of_the_next_row() -> None:
    paper, bars = an_account()

    (fill,) = paper.advance(bars[0], {"asset1": 3.0})

    price = DATA.field("open")[20, 1]
    assert fill == PaperFill("asset1", 3.0, price, 0.0)
    assert paper.cash == 100_000.0 - 3.0 * price
    assert paper.units == {"asset0": 0.0, "asset1": 3.0, "asset2": 0.0}
    assert paper.advance(bars[1]) == []


def test_an_order_waits_as_long_as_the_delay_says() -> None:
    paper, bars = an_account(execution=Execution(delay=2))

    assert paper.advance(bars[0], {"asset0": 1.0}) == []
    assert paper.advance(bars[1]) == []

    (fill,) = paper.advance(bars[2])
    assert fill.units == 1.0


def test_what_is_not_filled_stands_until_an_order_of_nothing_takes_its_place() -> None:
    paper, bars = an_account(execution=Execution(participation=0.5, unfilled="carry"))

    paper.advance(bars[0], {"asset0": 50.0})
    left = paper.open_units["asset0"]
    paper.advance(bars[1])

    assert 0.0 < paper.open_units["asset0"] < left <= 50.0
    assert paper.advance(bars[2], {"asset0": 0.0}) == []
    assert paper.open_units["asset0"] == 0.0


def test_a_cash_account_sells_no_more_than_it_has_and_one_on_margin_does() -> None:
    cash, bars = an_account()
    margin, _ = an_account(account=MarginAccount())

    for paper in (cash, margin):
        paper.advance(bars[0], {"asset0": 5.0})
        paper.advance(bars[1], {"asset0": -8.0})

    assert (cash.units["asset0"], margin.units["asset0"]) == (0.0, -3.0)


def delisted(row: int, until: int | None = None) -> MarketData:
    listed = np.ones(DATA.listed.shape, np.bool_)
    listed[row:until, 0] = False
    values = np.where(listed[:, :, None], DATA.values, np.nan)
    return DATA.replace(values=values, listed=listed, quoted=listed, tradable=listed)


def test_what_is_delisted_becomes_cash_and_orders_in_it_are_void() -> None:
    data = delisted(22)
    costs = Costs(delisting=0.5, proportional=0.0, half_spread=0.0, impact=0.0, fixed=7.0)
    paper = PaperAccount(
        data.rows(0, 20), costs=costs, account=MarginAccount(), execution=Execution(delay=1)
    )
    bars = list(Bar.each(data, 20))

    paper.advance(bars[0], {"asset0": 4.0})
    paper.advance(bars[1], {"asset0": -4.0})
    (fill,) = paper.advance(bars[2])

    price = data.field("close")[21, 0]
    assert fill == PaperFill("asset0", -4.0, price, 4.0 * price * 0.5, is_delisting=True)
    assert paper.costs["delisting"] == fill.cost
    assert paper.advance(bars[3]) == []


@pytest.mark.parametrize(("delay", "ordered"), [(0, 3), (2, 2)])
def test_a_sale_of_what_is_gone_sells_nothing_when_the_asset_is_back(
    delay: int, ordered: int
) -> None:
    data = delisted(23, until=24)
    execution = Execution(delay=delay, unfilled="carry")
    account = MarginAccount()
    paper = PaperAccount(data.rows(0, 20), costs=FREE, account=account, execution=execution)

    for row, bar in enumerate(Bar.each(data, 20, 26)):
        paper.advance(bar, {0: {"asset0": 4.0}, ordered: {"asset0": -4.0}}.get(row))
        assert paper.units["asset0"] == (4.0 if delay <= row < 3 else 0.0)


def test_of_what_is_removed_no_more_is_traded_than_what_closes_the_position() -> None:
    paper, bars = an_account(account=MarginAccount())
    paper.advance(bars[0], {"asset0": 4.0})
    paper.remove_asset("asset0")

    held = []
    for bar, units in zip(bars[1:4], (3.0, -1.0, -8.0), strict=False):
        paper.advance(bar, {"asset0": units})
        held.append(paper.units["asset0"])

    assert held == [4.0, 3.0, 0.0]


def test_a_refused_row_or_order_changes_nothing() -> None:
    paper, bars = an_account()
    paper.advance(bars[0], {"asset0": 1.0})
    before = encode_record(paper.state_dict())

    for bar, orders in (
        (bars[1], {"asset0": np.nan}),
        (bars[1], {"asset0": np.inf}),
        (bars[0], {"asset0": 1.0}),
        (Bar(bars[1].time, np.asarray(bars[1].values)[:2]), {}),
    ):
        with pytest.raises(ValueError, match="."):
            paper.advance(bar, orders)
    with pytest.raises(KeyError, match="unknown asset 'gold'; expected one of"):
        paper.advance(bars[1], {"gold": 1.0})

    assert encode_record(paper.state_dict()) == before
    (fill,) = paper.advance(bars[1], {"asset0": 1.0})
    assert fill.units == 1.0


def test_an_account_that_lost_everything_trades_no_more() -> None:
    values = DATA.values.copy()
    values[22:, 0, :4] = values[21, 0, :4] * 1e-9
    data = DATA.replace(values=values)
    account = MarginAccount(leverage=4.0, maintenance=0.1)
    paper = PaperAccount(data.rows(0, 20), account=account, costs=FREE)
    bars = list(Bar.each(data, 20))

    paper.advance(bars[0], {"asset0": 3.9e5 / data.field("open")[20, 0]})
    for bar in bars[1:4]:
        paper.advance(bar, {"asset1": 1.0})

    assert paper.is_ruined
    assert paper.advance(bars[4], {"asset1": 1.0}) == []


def test_an_account_is_like_any_env_of_portfolios_whatever_is_around_it() -> None:
    options: dict[str, Any] = {"data": DATA, "features": ["log_return"], "initial_cash": 7.0}
    env = sekai.make("Portfolio-v0", max_episode_steps=5, **options)

    assert PaperAccount.like(env).cash == 7.0
    with pytest.raises(TypeError, match="expected a Portfolio env"):
        PaperAccount.like(sekai.make("Trading-v0"))


def test_states_of_something_else_are_refused() -> None:
    paper, bars = an_account()
    paper.advance(bars[0], {"asset0": 1.0})
    before = encode_record(paper.state_dict())
    other = PaperAccount(DATA.select(DATA.assets[:2]).rows(0, 20), costs=FREE)
    costly = PaperAccount(DATA.rows(0, 20), costs=Costs(fixed=1.0))

    with pytest.raises(StateError, match="not the state of a paper account"):
        paper.load_state_dict({"native": b""})
    with pytest.raises(StateError, match="state of another account: assets"):
        paper.load_state_dict(other.state_dict())
    with pytest.raises(StateError):
        paper.load_state_dict(costly.state_dict())

    assert encode_record(paper.state_dict()) == before


def test_assets_come_and_go_as_in_the_env() -> None:
    old, new = DATA.select(DATA.assets[:2]), DATA.select(DATA.assets[2:])
    execution = Execution(sizing="decision")
    env, bars = streamed(old, 20, slots=1, execution=execution)
    env.reset(seed=0)
    paper = PaperAccount.like(env)
    assert paper.assets == env.assets == ("asset0", "asset1")
    quarter = np.full(4, 0.25)

    pass_rows(env, paper, named(env, env.orders(quarter)), bars)
    env.step(quarter)
    for one in (env, paper):
        one.add_asset("asset2", new.rows(0, 21))
        one.remove_asset("asset0")
    bars = list(Bar.each(DATA, 21))
    for _ in range(3):
        pass_rows(env, paper, named(env, env.orders(quarter)), bars)
        env.step(quarter)

    assert paper.units["asset0"] == 0.0 < paper.units["asset2"]
    with pytest.raises(ValueError, match="no slot is free"):
        paper.add_asset("asset3", new)
    with pytest.raises(ValueError, match="'asset2' cannot be added"):
        paper.add_asset("asset2", new)
    paper.add_asset("asset0")
    paper.advance(bars[0], {"asset0": 1.0})
    assert paper.units["asset0"] == 1.0
