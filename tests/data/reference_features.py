"""Reference features in plain Python, recomputed from the full history at every bar."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NONE = math.nan


@dataclass(frozen=True)
class Bar:
    high: float
    low: float
    close: float
    volume: float
    trades: int


@dataclass(frozen=True)
class View:
    """Market view after a bar; NaN if unknown."""

    bid: float = NONE
    ask: float = NONE
    bid_volume: float = NONE
    ask_volume: float = NONE
    last: float = NONE
    buy_volume: float = NONE
    sell_volume: float = NONE
    news_sentiment: float = NONE
    news_magnitude: float = NONE
    news_elapsed: float = NONE
    news_duration: float = NONE
    sentiment: float = NONE
    fair: float = NONE


def values(bars: Sequence[Bar], view: View) -> dict[str, float]:
    """Every feature after the last of `bars`, neither clipped nor replaced; NaN for no value."""
    closes = [bar.close for bar in bars]
    quoted = not (math.isnan(view.bid) or math.isnan(view.ask))
    last = closes[-1] if math.isnan(view.last) else view.last
    mid = (view.bid + view.ask) / 2 if quoted else last
    return {
        "f_mid_price": mid,
        **moves(closes),
        **technical(bars, closes, mid),
        **news(view),
        "f_spread_bps": divide(1e4 * (view.ask - view.bid), mid),
        "f_book_imbalance": imbalance(view.bid_volume, view.ask_volume),
        **volatility(closes),
        **fundamental(view, mid),
        **quality(bars, closes),
        "f_volume_surge": divide(bars[-1].volume, mean([b.volume for b in bars[:-1]], 8)),
        "f_trade_intensity": bars[-1].trades / 8,
        "f_sentiment_price_gap": view.sentiment * divide(mid - view.fair, view.fair),
        "f_net_order_flow": imbalance(view.buy_volume, view.sell_volume),
    }


def moves(closes: list[float]) -> dict[str, float]:
    found = {f"f_price_change_{k}": NONE for k in LAGS} | {f"f_log_return_{k}": NONE for k in LAGS}
    for k in LAGS:
        if len(closes) > k:
            now, before = closes[-1], closes[-1 - k]
            found[f"f_price_change_{k}"] = 100 * (now - before) / before
            found[f"f_log_return_{k}"] = log_ratio(now, before)
    return found


def technical(bars: Sequence[Bar], closes: list[float], mid: float) -> dict[str, float]:
    line = macd_lines(closes)
    signal = ema(line, 4)
    middle, deviation = mean(closes, 12), NONE
    percent = NONE
    if len(closes) >= 12:
        deviation = statistics.pstdev(closes[-12:])
        # The same as (mid - lower) / (upper - lower), but no digit of a high price is lost.
        exact = sum(map(Fraction, closes[-12:])) / 12
        above = float(Fraction(mid) - exact)
        percent = 0.5 if 4 * deviation < 1e-10 else 0.5 + above / (4 * deviation)
    return {
        "f_sma_8": mean(closes, 8),
        "f_sma_16": mean(closes, 16),
        "f_ema_8": ema(closes, 8),
        "f_ema_16": ema(closes, 16),
        "f_rsi_8": rsi(closes),
        "f_macd_line": line[-1] if line else NONE,
        "f_macd_signal": signal,
        "f_macd_histogram": line[-1] - signal if line else NONE,
        "f_bb_upper": middle + 2 * deviation,
        "f_bb_middle": middle,
        "f_bb_lower": middle - 2 * deviation,
        "f_bb_percent_b": percent,
        "f_atr_8": atr(bars),
    }


def news(view: View) -> dict[str, float]:
    active = not math.isnan(view.news_duration)
    faded = divide(view.news_elapsed, view.news_duration)
    return {
        "f_has_active_news": float(active),
        "f_news_sentiment": view.news_sentiment * (1 - faded),
        "f_news_magnitude": view.news_magnitude if active else NONE,
        "f_news_ticks_remaining": view.news_duration - view.news_elapsed,
    }


def volatility(closes: list[float]) -> dict[str, float]:
    returns = [log_ratio(now, before) for before, now in pairwise(closes[-33:])]
    short = statistics.stdev(returns[-8:]) if len(returns) >= 8 else NONE
    long = statistics.stdev(returns[-32:]) if len(returns) >= 32 else NONE
    ratio = divide(short, long)
    return {"f_realized_vol_8": short, "f_realized_vol_32": long, "f_vol_ratio": ratio}


def fundamental(view: View, mid: float) -> dict[str, float]:
    return {
        "f_fair_value_dev": divide(mid - view.fair, view.fair),
        "f_price_to_fair": divide(mid, view.fair),
    }


def quality(bars: Sequence[Bar], closes: list[float]) -> dict[str, float]:
    return {
        "f_trend_strength": divide(abs(ema(closes, 8) - ema(closes, 16)), atr(bars)),
        "f_rsi_divergence": rsi(closes) - 50,
    }


def mean(history: list[float], length: int) -> float:
    """Of the last `length` values."""
    return math.fsum(history[-length:]) / length if len(history) >= length else NONE


def ema(history: list[float], length: int, *, alpha: float = NONE) -> float:
    """The last of `emas`, or NaN if there is none."""
    found = emas(history, length, alpha=alpha)
    return found[-1] if found else NONE


def emas(history: list[float], length: int, *, alpha: float = NONE) -> list[float]:
    """Exponential averages, of which the first is the mean of the first `length` values."""
    if len(history) < length:
        return []
    weight = 2 / (length + 1) if math.isnan(alpha) else alpha
    averages = [math.fsum(history[:length]) / length]
    for value in history[length:]:
        averages.append(weight * value + (1 - weight) * averages[-1])
    return averages


def macd_lines(closes: list[float]) -> list[float]:
    """The line at every bar that has one: the fast average begins at the 16th close as well."""
    # Leaving out the first eight closes makes the mean of the next eight its beginning.
    both = zip(emas(closes[8:], 8), emas(closes, 16), strict=True)
    return [fast - slow for fast, slow in both]


def rsi(closes: list[float]) -> float:
    changes = [now - before for before, now in pairwise(closes)]
    gain = ema([max(change, 0.0) for change in changes], 8, alpha=1 / 8)
    loss = ema([max(-change, 0.0) for change in changes], 8, alpha=1 / 8)
    if loss == 0:
        return 100.0 if gain > 0 else NONE
    return 100 - 100 / (1 + gain / loss)


def atr(bars: Sequence[Bar]) -> float:
    ranges = [
        max(bar.high - bar.low, abs(bar.high - before.close), abs(bar.low - before.close))
        for before, bar in pairwise(bars)
    ]
    return ema(ranges, 8, alpha=1 / 8)


def log_ratio(now: float, before: float) -> float:
    """ln(now / before) to the last digits."""
    change = Fraction(now) / Fraction(before) - 1
    return math.log1p(float(change)) if abs(change) < 0.5 else math.log(now / before)


def imbalance(first: float, second: float) -> float:
    return divide(first - second, first + second)


def divide(over: float, under: float) -> float:
    return over / under if under != 0 else NONE
