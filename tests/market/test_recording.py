"""Recordings of the simulated market: bars, trades, news, fair values and sectors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sekai.market import (
    AccountConfig,
    FundamentalConfig,
    Market,
    MarketConfig,
    NewsConfig,
    NewsEvent,
    PopulationConfig,
    Recording,
    Side,
    SymbolConfig,
)

FEW = PopulationConfig(noise=4, value=2, momentum=0, trend=0, convergence=0, reversion=0, pool=100)


def recorded(ticks: int, seed: int = 0, **options: Any) -> Recording:
    return Market(MarketConfig(**options), seed=seed).record(ticks)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return recorded(600, symbols=2)


def test_a_recording_has_a_row_for_each_tick_and_a_column_for_each_symbol(
    recording: Recording,
) -> None:
    for name in ("mid", "fair", "sentiment", "high", "low", "close", "bought", "sold", "trades"):
        assert getattr(recording, name).shape == (600, 2), name
    assert recording.spread.shape == (600, 2)
    count = len(recording.trade_tick)
    for name in ("symbol", "sign", "price", "size"):
        assert getattr(recording, f"trade_{name}").shape == (count,), name


def test_bars_are_what_their_trades_add_up_to(recording: Recording) -> None:
    for symbol in range(2):
        last = None
        for tick in range(600):
            rows = (recording.trade_tick == tick) & (recording.trade_symbol == symbol)
            price, size = recording.trade_price[rows], recording.trade_size[rows]
            buys = recording.trade_sign[rows] == 1
            bar = (recording.high[tick, symbol], recording.low[tick, symbol])
            close = recording.close[tick, symbol]
            if len(price):
                assert bar == (price.max(), price.min())
                assert close == price[-1]
            elif last is not None:
                assert (*bar, close) == (last, last, last)
            assert recording.bought[tick, symbol] == size[buys].sum()
            assert recording.sold[tick, symbol] == size[~buys].sum()
            last = close
    assert np.array_equal(recording.volume, recording.bought + recording.sold)
    assert (recording.trades.sum(axis=0) <= np.bincount(recording.trade_symbol)).all()


def test_trades_come_in_order_and_name_who_came_in(recording: Recording) -> None:
    assert (np.diff(recording.trade_tick) >= 0).all()
    assert set(recording.trade_sign) == {-1, 1}
    assert set(recording.trade_symbol) == {0, 1}
    assert recording.trade_size.min() > 0
    # Buyers come in as often as sellers, within what chance does.
    assert abs(recording.trade_sign.mean()) < 0.15


def test_a_recording_is_the_market_tick_by_tick() -> None:
    config = MarketConfig(symbols=2)
    market, recording = Market(config, seed=4), recorded(50, seed=4, symbols=2)
    for tick in range(50):
        market.tick()
        for symbol in range(2):
            bid, ask = market.quote(symbol)
            assert recording.mid[tick, symbol] == market.mid(symbol)
            assert recording.fair[tick, symbol] == market.fair(symbol)
            if bid is not None and ask is not None:
                assert market.mid(symbol) == (bid + ask) / 2
                assert recording.spread[tick, symbol] == ask - bid > 0


def test_an_agents_own_trades_are_in_the_next_bar() -> None:
    market, other = Market(seed=1), Market(seed=1)
    market.tick(20)
    other.tick(20)
    taken = market.take(0, 0, Side.BUY, 40)
    one, two = market.record(1), other.record(1)

    assert taken == 40
    assert one.bought[0, 0] >= 40
    assert one.trade_size[0] >= 1
    assert one.trade_sign[0] == 1
    assert one.trades[0, 0] != two.trades[0, 0] or one.bought[0, 0] != two.bought[0, 0]


def test_depth_begins_at_the_quote_and_goes_away_from_it() -> None:
    market = Market(seed=2)
    market.tick(30)
    depth = market.depth(8)

    assert market.quote() == (depth.bid_price[0], depth.ask_price[0])
    assert (np.diff(depth.bid_price[depth.bid_price > 0]) < 0).all()
    assert (np.diff(depth.ask_price[depth.ask_price > 0]) > 0).all()
    assert (depth.bid_size >= depth.bid_orders).all()


def test_the_same_seed_is_the_same_market_and_others_are_others() -> None:
    paths = [
        Market(seed=seed, episode=episode).record(40).fair.tobytes()
        for seed, episode in ((1, 0), (1, 0), (2, 0), (1, 1))
    ]

    assert paths[0] == paths[1]
    assert len(set(paths)) == 3


def test_news_comes_as_often_as_asked_fades_and_ends() -> None:
    market = Market(MarketConfig(news=NewsConfig(rate=0.05, shortest=10, longest=30)), seed=3)
    born = 0
    before: tuple[NewsEvent, ...] = ()
    for _ in range(2_000):
        market.tick()
        news = market.news()
        born += sum(event.age == 0 for event in news)
        for event in news:
            assert event.topic in {"earnings", "guidance", "rates", "sector"}
            assert 10 <= event.duration <= 30
            assert 0 <= event.age < event.duration
            assert -1 <= event.sentiment <= 1
            assert 0 <= event.magnitude <= 10
        assert all(older.age >= newer.age for older, newer in pairwise(news))
        kept = [event for event in before if event.age + 1 < event.duration]
        assert [(e.sentiment, e.age + 1) for e in kept] == [
            (e.sentiment, e.age) for e in news if e.age > 0
        ]
        before = news

    assert 60 < born < 140


def test_sentiment_is_what_is_left_of_all_that_concerns_a_symbol() -> None:
    sectors = (SymbolConfig(sector=0), SymbolConfig(sector=0), SymbolConfig(sector=1))
    news = NewsConfig(rate=0.02, shortest=20, longest=60)
    market = Market(MarketConfig(symbols=sectors, news=news), seed=5)
    reported = set()
    alike = {0: [0, 1], 1: [0, 1], 2: [2]}
    for _ in range(600):
        recording = market.record(1)
        expected = [0.0, 0.0, 0.0]
        for event in market.news():
            reported.add(event.topic)
            wide = {"rates": [0, 1, 2], "sector": alike[event.symbol]}
            for symbol in wide.get(event.topic, [event.symbol]):
                expected[symbol] += event.sentiment * (1 - event.age / event.duration)
        assert recording.sentiment[0] == pytest.approx(expected, abs=1e-12)

    assert reported == {"earnings", "guidance", "rates", "sector"}


def test_news_moves_values_by_its_impact_at_once() -> None:
    still = FundamentalConfig(volatility=0.0, jump_rate=0.0)
    news = NewsConfig(rate=0.05, impact=0.01)
    market = Market(MarketConfig(fundamental=still, news=news), seed=1)
    moved = 0
    for _ in range(300):
        before = market.fair()
        market.tick()
        born = [event for event in market.news() if event.age == 0]
        change = sum(0.01 * event.sentiment * event.magnitude for event in born)
        assert market.fair() == pytest.approx(before * np.exp(change), rel=1e-12)
        moved += bool(born)

    assert moved > 5


def test_values_of_a_sector_move_together_and_others_less() -> None:
    symbols = tuple(SymbolConfig(sector=sector) for sector in (0, 0, 1, 1))
    calm = FundamentalConfig(jump_rate=0.0, volatility_of_volatility=0.0)
    quiet = NewsConfig(rate=0.0)
    fair = recorded(4_000, symbols=symbols, fundamental=calm, news=quiet, population=FEW).fair
    correlation = np.corrcoef(np.diff(np.log(fair), axis=0).T)

    # What all share is 0.3 of the variance, what a sector shares 0.2.
    assert correlation[0, 1] == pytest.approx(0.5, abs=0.05)
    assert correlation[2, 3] == pytest.approx(0.5, abs=0.05)
    assert correlation[:2, 2:] == pytest.approx(np.full((2, 2), 0.3), abs=0.06)
    assert np.diff(np.log(fair), axis=0).std() == pytest.approx(1e-4, rel=0.05)


def test_prices_follow_values() -> None:
    recording = recorded(3_000, regime="volatile")
    assert np.abs(recording.mid / recording.fair - 1)[50:].max() < 0.03
    # And find them: over long times both have gone the same way.
    moves = [np.log(path[200::200] / path[:-200:200]) for path in (recording.mid, recording.fair)]
    assert np.corrcoef(moves[0][:, 0], moves[1][:, 0])[0, 1] > 0.9


def test_accounts_are_in_currency_whatever_a_tick_is_worth() -> None:
    for tick_size in (0.01, 0.05):
        config = MarketConfig(tick_size=tick_size, account=AccountConfig(cash=50_000.0))
        market = Market(config)
        market.tick(10)
        market.take(0, 0, Side.BUY, 10)
        account = market.account()
        assert account.equity == pytest.approx(50_000.0, rel=1e-3)
        assert account.cash + 10 * tick_size * market.mid() == pytest.approx(account.equity)
