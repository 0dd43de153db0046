"""Learning agents in one living market: accounts, limits, refusals and states."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.error import OrderError, StateError
from sekai.market import (
    AccountConfig,
    Market,
    MarketConfig,
    PopulationConfig,
    Side,
    SymbolConfig,
    TimeInForce,
)

FEES = AccountConfig(maker_fee=1.0, taker_fee=2.0)
BUY, SELL = Side.BUY, Side.SELL


def opened(ticks: int = 20, seed: int = 0, **options: Any) -> Market:
    market = Market(MarketConfig(**{"agents": 3, **options}), seed=seed)
    market.tick(ticks)
    return market


def fee(price: int, size: int, millionths: int) -> int:
    """A part of the notional in ticks times lots, rounded up."""
    return -(-price * size * millionths // 1_000_000)


def test_an_agents_resting_order_is_filled_by_anothers_and_nothing_is_lost() -> None:
    market = opened(account=FEES)
    bid, ask = market.quote()
    assert bid is not None
    assert ask is not None
    middle = ask - 1 if ask - bid > 1 else ask
    taken = market.take(2, 0, BUY, market.depth(1).ask_size[0]) if middle == ask else 0
    before = [market.account_columns(agent) for agent in range(3)]

    placed = market.place(SELL, middle, 25, agent=0, time_in_force=TimeInForce.POST_ONLY)
    assert placed.resting == 25
    assert placed.id is not None
    assert market.take(1, 0, BUY, 10) == 10
    after = [market.account_columns(agent) for agent in range(3)]
    seller, buyer, watcher = (np.subtract(a[0], b[0]) for a, b in zip(after, before, strict=True))

    assert (after[0][2], after[1][2], after[2][2]) == ([-10], [10], [taken])
    assert seller == 10 * middle - fee(middle, 10, 100)
    assert buyer == -10 * middle - fee(middle, 10, 200)
    assert watcher == 0
    assert after[0][4] == [fee(middle, 10, 100)]
    assert after[1][4][0] - before[1][4][0] == fee(middle, 10, 200)
    assert (market.total_cash, market.total_lots()) == (0, 0)
    resting = market.order(placed.id)
    assert resting is not None
    assert (resting.size, resting.account) == (15, 0)


def test_a_quote_waits_its_turn_and_is_filled_by_the_population_in_the_end() -> None:
    market = opened()
    bid, _ = market.quote()
    assert bid is not None
    placed = market.place(BUY, bid, 40)
    assert placed.id is not None
    market.tick(400)

    assert market.order(placed.id) is None
    account = market.account()
    assert account.lots == (40,)
    assert account.cash == pytest.approx(100_000.0 - 0.4 * bid)
    assert account.fees == 0.0


def test_going_in_and_out_at_once_costs_the_spread_and_the_fees() -> None:
    market = opened(account=FEES)
    depth = market.depth(20)

    def walk(prices: Any, sizes: Any, left: int) -> list[tuple[int, int]]:
        fills = []
        for price, size in zip(prices.tolist(), sizes.tolist(), strict=True):
            taken = min(left, size)
            if taken:
                fills.append((price, taken))
            left -= taken
        assert left == 0
        return fills

    bought = walk(depth.ask_price, depth.ask_size, 30)
    sold = walk(depth.bid_price, depth.bid_size, 30)
    assert market.take(0, 0, BUY, 30) == 30
    assert market.take(0, 0, SELL, 30) == 30
    paid = sum(price * size for price, size in bought) - sum(price * size for price, size in sold)
    cash, equity, lots, realised, fees = market.account_columns(0)

    assert (lots, realised) == ([0], [-paid])
    assert cash == equity == 10_000_000 - paid - fees[0]
    notional = sum(price * size for price, size in bought + sold)
    # Each fill's fee is rounded up for the market; levels may hold many small orders.
    assert notional * 2e-4 <= fees[0] <= notional * 2e-4 + 60
    assert paid > 0


tries = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 2), st.sampled_from(Side), st.integers(1, 400)),
    st.tuples(
        st.just("place"),
        st.integers(0, 2),
        st.sampled_from(Side),
        st.integers(-12, 12),
        st.integers(1, 200),
        st.sampled_from(TimeInForce),
    ),
    st.tuples(st.just("tick")),
)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), cash=st.sampled_from([800.0, 30_000.0]), plan=st.lists(tries))
def test_whatever_agents_try_nothing_is_made_and_nobody_passes_a_limit(
    seed: int, cash: float, plan: list[Any]
) -> None:
    account = AccountConfig(cash=cash, most_long=300, most_short=150, taker_fee=2.0)
    market = opened(3, seed, account=account)
    for kind, *attempt in plan:
        if kind == "tick":
            market.tick()
        elif kind == "take":
            agent, side, size = attempt
            market.take(agent, 0, side, size)
        else:
            agent, side, away, size, force = attempt
            price, before = round(market.mid()) + away, market.encode()
            try:
                market.place(side, price, size, agent=agent, time_in_force=force)
            except OrderError:
                assert market.encode() == before
        assert (market.total_cash, market.total_lots()) == (0, 0)
        for agent in range(3):
            held = market.account(agent)
            assert -150 <= held.lots[0] <= 300
            assert held.cash >= 0 or held.lots[0] < 0


def test_own_offers_are_not_counted_as_cheap_ones() -> None:
    # They leave the book when their owner meets them, and what is behind them costs more.
    wide = PopulationConfig(noise=0, maker_half_spread=4.0)
    bid, ask = opened(21, population=wide).quote()
    assert bid is not None
    assert ask is not None
    assert ask - bid >= 4
    cash = 10 * (bid + 1) + 20
    ways: list[Callable[[Market], Any]] = [
        lambda market: market.take(0, 0, BUY, 10),
        lambda market: market.place(BUY, ask + 5, 10, time_in_force=TimeInForce.FILL_OR_KILL),
    ]
    for buy in ways:
        market = opened(21, population=wide, account=AccountConfig(cash=0.01 * cash))
        market.place(SELL, bid + 1, 10, time_in_force=TimeInForce.POST_ONLY)
        with contextlib.suppress(OrderError):
            buy(market)

        assert 0 <= market.account_columns(0)[0] <= cash
        assert market.account().lots[0] < 10


def test_what_an_account_cannot_bear_is_refused_with_what_it_has() -> None:
    market = opened(account=AccountConfig(cash=1_000.0, most_long=50, most_short=20))
    before = market.encode()

    with pytest.raises(OrderError, match="position limit allows at most 50 more lots, got 51"):
        market.place(BUY, 9_000, 51)
    with pytest.raises(OrderError, match="position limit allows at most 20 more lots, got 21"):
        market.place(SELL, 11_000, 21)
    with pytest.raises(OrderError, match="needs 1080060 of cash, the account has 100000 to spare"):
        market.place(BUY, 90_000, 12)
    with pytest.raises(OrderError, match="post-only order at 1"):
        market.place(SELL, 1, 5, time_in_force=TimeInForce.POST_ONLY)
    assert market.encode() == before


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda market: market.account(3), "one of 3 agents, got number 3"),
        (lambda market: market.take(3, 0, BUY, 1), "one of 3 agents, got number 3"),
        (lambda market: market.take(0, 1, BUY, 1), "a symbol from 0 to 0, got 1"),
        (lambda market: market.mid(7), "a symbol from 0 to 0, got 7"),
        (lambda market: market.room(9, 0, BUY), "one of 3 agents, got number 9"),
    ],
)
def test_what_is_not_there_is_named(call: Any, wanted: str) -> None:
    market = opened()
    before = market.encode()

    with pytest.raises(IndexError, match=wanted):
        call(market)
    assert market.encode() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda market: market.take(0, 0, BUY, 0),
        lambda market: market.take(0, 0, BUY, -1),
        lambda market: market.take(0, 0, 2, 1),
        lambda market: market.place(BUY, 0, 1),
        lambda market: market.place(BUY, 2**31, 1),
        lambda market: market.place(BUY, 9_000, 1.5),
        lambda market: market.cancel(0, 0, 10**15),
    ],
)
def test_what_is_no_order_is_refused_and_nothing_moves(call: Any) -> None:
    market = opened()
    before = market.encode()

    with pytest.raises(OrderError):
        call(market)
    assert market.encode() == before


def test_nobody_cancels_what_is_not_theirs() -> None:
    market = opened()
    placed = market.place(BUY, 9_000, 100, agent=1)
    assert placed.id is not None

    with pytest.raises(OrderError, match="the agent has no resting order"):
        market.cancel(0, 0, placed.id)
    assert market.room(1, 0, BUY) == 800
    assert market.cancel(1, 0, placed.id).size == 100
    assert market.room(1, 0, BUY) == 900


def test_a_market_continues_from_its_state_as_if_nothing_had_happened() -> None:
    market, other = opened(seed=1, symbols=2), opened(0, seed=2, symbols=2)
    market.place(BUY, 9_990, 30, agent=1)
    market.take(0, 1, SELL, 20)
    other.load_state_dict(market.state_dict())

    one, two = market.record(100), other.record(100)
    for name in one.__dataclass_fields__:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert market.state_dict() == other.state_dict()
    assert market.account(1) == other.account(1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_state_is_refused_and_changes_nothing(data: st.DataObject) -> None:
    market = opened(5)
    good = market.state_dict()
    damaged = bytearray(good["market"])
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]

    with pytest.raises(StateError):
        market.load_state_dict({"market": bytes(damaged)})
    assert market.state_dict() == good


def test_the_state_of_something_else_is_refused_and_changes_nothing() -> None:
    market = opened()
    good = market.state_dict()
    newer = bytearray(good["market"])
    newer[4] = 99

    others: list[Any] = [{}, {"market": "text"}, None, 3, {"book": good["market"]}]
    for other in others:
        with pytest.raises(StateError, match="the bytes of a market under 'market'"):
            market.load_state_dict(other)
    with pytest.raises(StateError, match="99"):
        market.load_state_dict({"market": bytes(newer)})
    for options in ({"symbols": 2}, {"agents": 2}, {"population": "standard"}):
        with pytest.raises(StateError, match="another"):
            market.load_state_dict(opened(**options).state_dict())
    with pytest.raises(StateError):
        market.load_state_dict(opened(symbols=(SymbolConfig(sector=4),)).state_dict())
    assert market.state_dict() == good


def test_threads_may_share_a_market_and_each_call_is_whole() -> None:
    market = opened(symbols=2)
    errors: list[BaseException] = []

    def use(agent: int) -> None:
        try:
            for turn in range(150):
                market.take(agent, turn % 2, Side(turn // 2 % 2), 5)
                market.tick()
                market.account(agent)
        except BaseException as error:
            errors.append(error)

    users = [threading.Thread(target=use, args=(agent,)) for agent in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join()

    assert errors == []
    assert market.now == 20 + 3 * 150
    assert market.total_cash == market.total_lots(0) == market.total_lots(1) == 0
