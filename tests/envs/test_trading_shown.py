"""Observations of trading: names, options, own account, and ranges in every regime."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from quant_gym_rs._core import feature_registry
from sekai.envs import Trading
from sekai.market import MarketConfig, NewsConfig
from tests.envs.trading_paths import choices, follow

PRICES = {
    "f_mid_price",
    *("f_sma_8", "f_sma_16", "f_ema_8", "f_ema_16", "f_atr_8"),
    *("f_macd_line", "f_macd_signal", "f_macd_histogram"),
    *("f_bb_upper", "f_bb_middle", "f_bb_lower"),
}
FAIR = {"f_fair_value_dev": 0.0, "f_price_to_fair": 1.0, "f_sentiment_price_gap": 0.0}
NAMES = [row[1] for row in feature_registry()]
NEWSY: dict[str, Any] = {"news": NewsConfig(rate=0.05)}


def test_the_features_are_the_54_of_the_list_and_a_55th_if_asked_for() -> None:
    assert Trading().feature_names() == NAMES
    assert len(NAMES) == 54
    assert Trading(full55=True).feature_names() == [*NAMES, "f_net_order_flow"]


def test_several_symbols_are_shown_one_after_the_other() -> None:
    names = Trading(symbols=2, agent=True).feature_names()

    assert names[:108] == [f"{name}@{symbol}" for symbol in (0, 1) for name in NAMES]
    assert names[108:] == [
        *("a_position@0", "a_position@1", "a_unrealised@0", "a_unrealised@1"),
        *("a_cash_share", "a_time_left"),
    ]


def test_the_block_of_a_symbol_is_what_its_own_market_shows() -> None:
    path = follow(choices(1, 80, symbols=3), symbols=3)
    blocks = path.observations.reshape(81, 3, 54)

    assert np.array_equal(blocks[:, :, 0], path.mids)
    returns = blocks[:, :, NAMES.index("f_log_return_1")]
    assert not np.array_equal(returns[:, 0], returns[:, 1])
    assert not np.array_equal(returns[:, 1], returns[:, 2])


def test_normalised_prices_are_divided_by_the_mid_and_nothing_else_changes() -> None:
    plain = follow(choices(2, 150), seed=2)
    normal = follow(choices(2, 150), seed=2, normalize=True)
    for name in NAMES:
        expected = plain.feature(name) / plain.mids[:, 0] if name in PRICES else plain.feature(name)
        assert normal.feature(name) == pytest.approx(expected, rel=1e-12, abs=1e-15), name
    assert set(normal.feature("f_mid_price")) == {1.0}
    assert np.array_equal(plain.rewards, normal.rewards)


def test_the_fair_value_is_hidden_unless_privileged_features_are_requested() -> None:
    shown = follow(choices(2, 150), seed=2, privileged=True, **NEWSY)
    hidden = follow(choices(2, 150), seed=2, **NEWSY)
    assert hidden.observations.shape == shown.observations.shape == (151, 54)
    for name in NAMES:
        if name in FAIR:
            assert set(hidden.feature(name)) == {FAIR[name]}
            assert len(set(shown.feature(name))) > 50
        else:
            assert np.array_equal(hidden.feature(name), shown.feature(name)), name


def test_the_order_flow_is_a_55th_feature_and_the_others_stay() -> None:
    plain, full = follow(choices(2, 150)), follow(choices(2, 150), full55=True)
    flow = full.feature("f_net_order_flow")

    assert np.array_equal(full.observations[:, :54], plain.observations)
    assert np.abs(flow).max() <= 1.0
    assert len(set(flow)) > 50


def test_the_agent_is_shown_its_own_account() -> None:
    path = follow(choices(5, 90), seed=5, agent=True, max_ticks=100)
    equity, cash = path.infos["equity"], path.infos["cash"]
    bare = follow(choices(5, 90), seed=5, max_ticks=100)

    assert np.array_equal(path.observations[:, :54], bare.observations)
    assert path.feature("a_cash_share") == pytest.approx(cash / equity, rel=1e-12)
    assert path.feature("a_time_left") == pytest.approx(1 - np.arange(91) / 100, rel=1e-12)
    moved = np.diff(path.lots[:, 0])
    assert np.array_equal(np.abs(moved), path.infos["traded"][1:])
    assert np.abs(moved).max() == 30
    # Fees apart, what is not yet realised is what equity has gained beside that.
    gained = equity - 100_000.0 - path.infos["realized_pnl"] + path.infos["fees"]
    assert path.feature("a_unrealised") * equity == pytest.approx(gained, abs=1e-6)


def test_an_agent_begins_with_nothing_but_cash_and_time() -> None:
    names = Trading(agent=True, symbols=2).feature_names()
    start = Trading(agent=True, symbols=2).reset(seed=0).observation

    account = {name: value for name, value in zip(names, start, strict=True) if name[0] == "a"}
    assert account.pop("a_cash_share") == account.pop("a_time_left") == 1.0
    assert set(account.values()) == {0.0}


def test_news_is_shown_from_its_first_tick_to_its_last() -> None:
    path = follow([1] * 800, news=NewsConfig(rate=0.02, shortest=20, longest=40))
    active, left = path.feature("f_has_active_news"), path.feature("f_news_ticks_remaining")
    sentiment, magnitude = path.feature("f_news_sentiment"), path.feature("f_news_magnitude")

    assert 0.1 < active.mean() < 0.9
    assert set(active) == {0.0, 1.0}
    assert np.array_equal(left > 0, active == 1)
    assert np.array_equal(sentiment != 0, active == 1)
    assert (magnitude[active == 1] > 0).all()
    # The same event goes on: it has a tick less, and its sentiment fades evenly.
    same = (left[1:] == left[:-1] - 1) & (left[1:] > 0)
    assert same.sum() > 30
    faded = sentiment[1:][same] / sentiment[:-1][same]
    assert faded == pytest.approx(left[1:][same] / left[:-1][same], rel=1e-12)
    assert np.array_equal(magnitude[1:][same], magnitude[:-1][same])


@pytest.mark.parametrize(
    ("regime", "population"),
    list(product(["calm", "normal", "volatile", "crisis"], ["light", "standard"])),
)
def test_any_weather_and_population_runs_within_the_ranges(regime: Any, population: Any) -> None:
    path = follow(
        choices(0, 250), regime=regime, population=population, full55=True, privileged=True
    )
    low, high = np.array([(row[4], row[5]) for row in feature_registry(full55=True)]).T

    assert np.isfinite(path.observations).all()
    assert (path.observations >= low).all()
    assert (path.observations <= high).all()
    assert np.isfinite(path.rewards).all()
    assert len(path.rewards) == 250
    # A living market: it trades in most ticks, and its prices move but stay near their worth.
    assert (path.feature("f_trade_intensity") > 0).mean() > 0.9
    assert np.abs(path.feature("f_fair_value_dev")).max() < 0.02


def test_rougher_weather_is_rougher() -> None:
    def roughness(regime: Any) -> float:
        paths = [follow([1] * 400, seed=seed, regime=regime) for seed in range(4)]
        return float(np.mean([path.feature("f_log_return_8").std() for path in paths]))

    moves = [roughness(regime) for regime in ("calm", "normal", "volatile", "crisis")]
    assert all(rougher > 1.3 * calmer for calmer, rougher in pairwise(moves))


def test_a_warm_market_has_values_for_all_features_from_the_first_step() -> None:
    env = Trading(privileged=True, **NEWSY)
    starts = np.array([env.reset(seed=seed).observation for seed in range(30)])
    neutral = np.array([row[3] for row in feature_registry()])

    # A move over some bars may be none by chance, but not in many markets.
    assert ((starts != neutral).sum(axis=0) > 10).all()
    assert (starts[:, NAMES.index("f_realized_vol_32")] > 0).all()
    assert starts[:, NAMES.index("f_sma_16")] == pytest.approx(starts[:, 0], rel=0.01)


def test_prices_are_in_currency_whatever_a_tick_is_worth() -> None:
    fine = follow([1] * 20, market=MarketConfig(tick_size=0.001))
    coarse = follow([1] * 20, market=MarketConfig(tick_size=0.25))

    for path, tick in ((fine, 0.001), (coarse, 0.25)):
        assert path.mids[:, 0] == pytest.approx(np.full(21, 100.0), rel=0.05)
        halves = 2 * path.mids[:, 0] / tick
        assert halves == pytest.approx(np.rint(halves), abs=1e-6)
        spread = 1e-4 * path.feature("f_spread_bps") * path.mids[:, 0] / tick
        assert spread == pytest.approx(np.rint(spread), abs=1e-6)
        assert spread.min() >= 1 - 1e-6
