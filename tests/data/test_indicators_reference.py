"""The features against a reference that goes through the full history at every bar."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sekai.data import FEATURES, compute
from tests.data import reference_features as reference
from tests.data.strategies import bar_columns, bar_series, view_columns, view_series

WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""The message names the feature and the bar; a shorter series would take minutes to find."""


def tolerance(name: str, wanted: dict[str, float], scale: float, price_level: bool) -> float:
    """Error bound of a float, where a formula cancels digits."""
    if price_level:
        return 1e-9 * abs(wanted[name]) + 1e-13 * scale
    if name.startswith("f_rsi"):
        return 1e-12  # the reference subtracts from 100
    if name == "f_trend_strength":
        return 1e-9 * abs(wanted[name]) + 1e-13 * scale / (wanted["f_atr_8"] or 1.0)
    if name == "f_bb_percent_b":
        width = wanted["f_bb_upper"] - wanted["f_bb_lower"]
        return 1e-9 * abs(wanted[name]) + 1e-15 * scale / max(width, 1e-10)
    return 1e-9 * abs(wanted[name]) + 1e-14


def is_noise(name: str, wanted: dict[str, float], largest_return: float) -> bool:
    """Return True if a ratio is dominated by rounding errors."""
    return name == "f_vol_ratio" and wanted["f_realized_vol_32"] < 1e-12 * largest_return


@given(data=st.data(), bars=bar_series() | bar_series(min_size=66))
@settings(deadline=None, max_examples=60, phases=WITHOUT_SHRINKING)
def test_every_feature_equals_the_reference_at_every_bar(
    data: st.DataObject, bars: list[reference.Bar]
) -> None:
    seen = data.draw(view_series(bars))
    columns = bar_columns(bars) | view_columns(seen)

    raw = compute(**columns, full55=True, raw=True)
    shown = compute(**columns, full55=True)

    for now in range(len(bars)):
        wanted = reference.values(bars[: now + 1], seen[now])
        scale = max(bar.close for bar in bars[: now + 1])
        moves = abs(np.diff(np.log([bar.close for bar in bars[: now + 1]])))
        for feature in FEATURES:
            value, found = wanted[feature.name], raw[now, feature.index]
            reported = f"{feature.name} after bar {now} is {found}, not {value}"
            if is_noise(feature.name, wanted, moves.max(initial=0.0)):
                continue
            if math.isnan(value):
                assert math.isnan(found), reported
                assert shown[now, feature.index] == feature.neutral, reported
                continue
            clipped = min(max(value, feature.low), feature.high)
            allowed = tolerance(feature.name, wanted, scale, feature.price_level)
            assert abs(found - clipped) <= allowed, reported
            assert shown[now, feature.index] == found, reported


@given(bars=bar_series(min_size=20))
@settings(deadline=None, max_examples=30)
def test_small_moves_of_high_prices_keep_their_bands(bars: list[reference.Bar]) -> None:
    steps = np.array([bar.volume for bar in bars]) % 1.0
    close = 1e6 + 1e-3 * np.round(steps, 3)
    high = [reference.Bar(price, price, price, 0.0, 0) for price in close.tolist()]

    rows = compute(close, close, close, raw=True)

    names = {feature.name: feature.index for feature in FEATURES}
    for now in range(11, len(bars)):
        wanted = reference.values(high[: now + 1], reference.View())
        for name in ("f_bb_percent_b", "f_bb_upper", "f_bb_lower", "f_realized_vol_8"):
            if not math.isnan(wanted[name]):
                assert math.isclose(rows[now, names[name]], wanted[name], rel_tol=1e-11), name


def test_the_reference_knows_every_feature() -> None:
    bar = reference.Bar(1.0, 1.0, 1.0, 1.0, 1)

    assert list(reference.values([bar], reference.View())) == [f.name for f in FEATURES]
