"""Conservation of money in trading, and position limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.envs import Trading
from sekai.market import AccountConfig, SymbolConfig
from tests.envs.trading_paths import Path, choices, follow, weights

CASH = 100_000.0
seeds = st.integers(0, 2**32)
EPISODES: dict[str, dict[str, Any]] = {
    "one symbol": {},
    "three symbols": {"symbols": 3},
    "a penny share": {"symbols": (SymbolConfig(price=1.5),)},
    "coarse ticks": {"tick_size": 0.25},
    "a rebate": {"account": AccountConfig(maker_fee=-0.2, taker_fee=3.0)},
    "no fees": {"account": AccountConfig(taker_fee=0.0)},
    "a crisis": {"regime": "crisis", "order_size": 200},
}


def symbols_of(options: dict[str, Any]) -> int:
    found = options.get("symbols", 1)
    return found if isinstance(found, int) else len(found)


@pytest.mark.parametrize("name", sorted(EPISODES))
@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_equity_is_cash_and_lots_at_the_mid_price(name: str, seed: int) -> None:
    options = EPISODES[name]
    actions = choices(seed, 200, symbols_of(options))
    path = follow(actions, seed=seed, agent=True, **options)
    held = (path.lots * path.mids).sum(axis=1)

    assert path.infos["equity"] == pytest.approx(path.infos["cash"] + held, rel=1e-9)
    exposure = (np.abs(path.lots) * path.mids).sum(axis=1)
    assert path.infos["exposure"] == pytest.approx(exposure, rel=1e-9)


@pytest.mark.parametrize("name", sorted(EPISODES))
@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_the_reward_is_the_change_of_equity_to_the_last_bit(name: str, seed: int) -> None:
    options = EPISODES[name]
    path = follow(choices(seed, 150, symbols_of(options)), seed=seed, **options)

    assert np.array_equal(path.rewards, np.diff(path.infos["equity"]))
    assert path.infos["equity"][0] == CASH


@pytest.mark.parametrize("name", sorted(EPISODES))
@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_profit_is_realised_or_not_yet_and_fees_are_paid(name: str, seed: int) -> None:
    options = EPISODES[name]
    actions = choices(seed, 150, symbols_of(options))
    path = follow(actions, seed=seed, agent=True, **options)
    infos = path.infos
    open_profit = path.each("a_unrealised").sum(axis=1) * infos["equity"]
    total = CASH + infos["realized_pnl"] + open_profit - infos["fees"]

    assert infos["equity"] == pytest.approx(total, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_holding_changes_neither_cash_nor_lots(seed: int) -> None:
    actions = choices(seed, 120)
    path = follow(actions, seed=seed, agent=True)
    holding = np.array(actions) == 1

    for column in (path.infos["cash"], path.infos["fees"], path.infos["realized_pnl"]):
        assert not np.diff(column)[holding].any()
    assert not np.diff(path.lots[:, 0])[holding].any()
    assert not path.infos["traded"][1:][holding].any()


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_a_choice_trades_its_size_unless_a_limit_or_an_empty_book_stops_it(seed: int) -> None:
    actions = choices(seed, 120)
    path = follow(actions, seed=seed, agent=True)
    moved = np.diff(path.lots[:, 0])
    wanted = 30.0 * (np.array(actions) - 1)

    assert np.array_equal(np.abs(moved), path.infos["traded"][1:])
    assert (np.sign(moved) * np.sign(wanted) >= 0).all()
    assert np.array_equal(moved, wanted) or np.abs(path.lots).max() > 870


def spent(path: Path) -> Any:
    """Transaction cost of each step against the observed mid price."""
    return -(np.diff(path.infos["cash"]) + np.diff(path.lots[:, 0]) * path.mids[:-1, 0])


@settings(max_examples=15, deadline=None)
@given(seed=seeds, rate=st.sampled_from([0.0, 0.5, 7.0]))
def test_every_trade_pays_half_the_spread_and_its_fee_at_least(seed: int, rate: float) -> None:
    account = AccountConfig(taker_fee=rate)
    path = follow(choices(seed, 120), seed=seed, agent=True, account=account, order_size=7)
    traded, mid = path.infos["traded"][1:], path.mids[:-1, 0]
    half = 1e-4 * path.feature("f_spread_bps")[:-1] * mid / 2
    fees = np.diff(path.infos["fees"])

    assert (spent(path) >= traded * half + fees - 1e-8).all()
    notional = np.abs(np.diff(path.infos["cash"]) + fees)
    # Rounded up to hundredths of a cent, for each of at most seven fills.
    assert (fees >= rate * 1e-4 * notional - 1e-9).all()
    assert (fees <= rate * 1e-4 * notional + 0.07 + 1e-9).all()
    assert (fees > 0).any() == (rate > 0)


def test_going_in_and_out_loses_money_on_average() -> None:
    ends = []
    for seed in range(40):
        path = follow([2, 0] * 20, seed=seed)
        assert path.infos["cash"][-1] == pytest.approx(path.infos["equity"][-1])
        ends.append(path.infos["equity"][-1] - CASH)

    assert np.mean(ends) < -40 * 30 * 0.005
    assert max(ends) < 0


accounts = st.builds(
    AccountConfig,
    cash=st.sampled_from([50.0, 3_000.0, 20_000.0, 1e6]),
    most_long=st.integers(0, 400),
    most_short=st.integers(0, 400),
    taker_fee=st.sampled_from([0.0, 0.5, 100.0]),
)


@settings(max_examples=40, deadline=None)
@given(account=accounts, seed=seeds, size=st.integers(1, 500), symbols=st.integers(1, 2))
def test_no_limit_is_ever_passed(
    account: AccountConfig, seed: int, size: int, symbols: int
) -> None:
    env = Trading(account=account, order_size=size, symbols=symbols, agent=True, regime="volatile")
    env.reset(seed=seed)
    for action in choices(seed, 60, symbols):
        result = env.step(action)
        shares = result.observation[54 * symbols :][:symbols]
        lots = shares * np.where(shares < 0, account.most_short, account.most_long)
        assert lots.max() <= account.most_long + 1e-9
        assert lots.min() >= -account.most_short - 1e-9
        # A short sale brings cash that may be spent; without one there is only one's own.
        assert result.info["cash"] >= 0 or lots.min() < 0
        if result.done:
            break


def test_an_account_without_cash_buys_what_it_can_pay_and_no_more() -> None:
    path = follow([2] * 3, account=AccountConfig(cash=1_000.0), agent=True)

    assert path.lots[:, 0].tolist() == [0, 9, 9, 9]
    assert 0 <= path.infos["cash"][-1] < 101


@pytest.mark.parametrize("share", [0.04, -0.04, 0.0, 0.001])
def test_a_weight_is_reached_within_a_lot(share: float) -> None:
    path = follow(
        [*weights(0, 20, most=0.05), [share]], action="weights", agent=True, regime="calm"
    )
    wanted = share * path.infos["equity"][-2] / path.mids[-2, 0]

    assert abs(path.lots[-1, 0] - wanted) < 1
    assert abs(path.lots[-1, 0]) <= abs(wanted) + 1e-9


def test_weights_of_several_symbols_are_reached_one_by_one() -> None:
    path = follow(weights(3, 30, symbols=3, most=0.04), action="weights", symbols=3, agent=True)
    wanted = np.array(weights(3, 30, symbols=3, most=0.04))
    target = wanted * path.infos["equity"][:-1, None] / path.mids[:-1]

    assert np.abs(path.lots[1:] - target).max() < 1.01
    assert path.infos["traded"][1:] == pytest.approx(np.abs(np.diff(path.lots, axis=0)).sum(axis=1))


def test_a_large_weight_is_reached_in_time_and_stops_at_the_limit() -> None:
    for share, expected in ((0.7, 700), (1.0, 900), (-1.0, -900)):
        path = follow([[share]] * 60, action="weights", agent=True)
        assert path.lots[-1, 0] == pytest.approx(expected, abs=12)
    assert abs(path.lots).max() <= 900
