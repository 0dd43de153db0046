"""The table of features is a contract: names, order, neutral values and ranges."""

from __future__ import annotations

import math

from sekai.data import FEATURES

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
ANY = (-math.inf, math.inf)
TABLE: dict[str, tuple[float, tuple[float, float]]] = {
    "f_mid_price": (0.0, ANY),
    **{f"f_price_change_{k}": (0.0, (-100.0, 100.0)) for k in LAGS},
    **{f"f_log_return_{k}": (0.0, (-5.0, 5.0)) for k in LAGS},
    "f_sma_8": (0.0, ANY),
    "f_sma_16": (0.0, ANY),
    "f_ema_8": (0.0, ANY),
    "f_ema_16": (0.0, ANY),
    "f_rsi_8": (50.0, (0.0, 100.0)),
    "f_macd_line": (0.0, ANY),
    "f_macd_signal": (0.0, ANY),
    "f_macd_histogram": (0.0, ANY),
    "f_bb_upper": (0.0, ANY),
    "f_bb_middle": (0.0, ANY),
    "f_bb_lower": (0.0, ANY),
    "f_bb_percent_b": (0.5, (-2.0, 3.0)),
    "f_atr_8": (0.0, (0.0, math.inf)),
    "f_has_active_news": (0.0, (0.0, 1.0)),
    "f_news_sentiment": (0.0, (-1.0, 1.0)),
    "f_news_magnitude": (0.0, (0.0, 10.0)),
    "f_news_ticks_remaining": (0.0, (0.0, 1000.0)),
    "f_spread_bps": (0.0, (0.0, 1000.0)),
    "f_book_imbalance": (0.0, (-1.0, 1.0)),
    "f_realized_vol_8": (0.0, (0.0, 1.0)),
    "f_realized_vol_32": (0.0, (0.0, 1.0)),
    "f_vol_ratio": (1.0, (0.0, 10.0)),
    "f_fair_value_dev": (0.0, (-1.0, 1.0)),
    "f_price_to_fair": (1.0, (0.0, 5.0)),
    "f_trend_strength": (0.0, (0.0, 10.0)),
    "f_rsi_divergence": (0.0, (-50.0, 50.0)),
    "f_volume_surge": (1.0, (0.0, 100.0)),
    "f_trade_intensity": (0.0, (0.0, 100.0)),
    "f_sentiment_price_gap": (0.0, (-1.0, 1.0)),
    "f_net_order_flow": (0.0, (-1.0, 1.0)),
}
GROUPS = {
    "price": range(25),
    "technical": range(25, 38),
    "news": range(38, 42),
    "microstructure": (42, 43, 54),
    "volatility": range(44, 47),
    "fundamental": range(47, 49),
    "momentum_quality": range(49, 51),
    "volume_and_cross": range(51, 54),
}
IN_UNITS_OF_PRICE = ("mid", "sma_", "ema_", "macd_", "bb_upper", "bb_middle", "bb_lower", "atr_")


def test_names_neutral_values_and_ranges_are_those_of_the_table() -> None:
    found = {feature.name: (feature.neutral, (feature.low, feature.high)) for feature in FEATURES}

    assert list(found) == list(TABLE)
    assert found == TABLE


def test_groups_are_those_of_the_table() -> None:
    found = {
        group: [feature.index for feature in FEATURES if feature.group == group]
        for group in {feature.group for feature in FEATURES}
    }

    assert found == {group: list(places) for group, places in GROUPS.items()}


def test_what_is_in_units_of_price_is_marked() -> None:
    for feature in FEATURES:
        assert feature.price_level == feature.name[2:].startswith(IN_UNITS_OF_PRICE), feature.name
