"""Summaries of a panel: a row of numbers for each asset, the table of notebooks, and its chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from sekai.data.market_data import MarketData
from sekai.data.writing import as_frame
from sekai.storage.display import html_table, name_list, short_time
from sekai.storage.optional import optional_import

FEWEST_DECIMALS, MOST_DECIMALS = 2, 8
SIGNIFICANT_DIGITS = 5
SAMPLED = 10_000
"""Prices that are looked at for their decimals."""
LEGEND_LINES = 10
"""Lines with a legend; more of them have none."""


def describe(data: MarketData, backend: str) -> Any:
    """Summary of each asset, see `MarketData.describe`."""
    return as_frame(summary_columns(data), backend, f"MarketData.describe(backend={backend!r})")


def summary_columns(data: MarketData) -> dict[str, Any]:
    """Columns of the summary, one value per asset."""
    rows = np.arange(len(data))[:, None]
    first = np.where(data.listed, rows, len(data)).min(axis=0, initial=len(data))
    last = np.where(data.listed, rows, -1).max(axis=0, initial=-1)
    times = np.append(data.times, np.datetime64("NaT"))
    columns: dict[str, Any] = {
        "asset": list(data.assets),
        "sector": [data.sectors.get(name) for name in data.assets],
        "rows": data.listed.sum(axis=0),
        "first": times[first],
        "last": times[last],
        "halted": (data.listed & ~data.quoted).sum(axis=0),
        "missing": (np.isnan(data.values).any(axis=2) & data.quoted).sum(axis=0),
    }
    if "close" in data.fields:
        columns |= _price_columns(data)
    if "volume" in data.fields:
        columns["mean_volume"] = _mean(np.where(data.quoted, data.field("volume"), np.nan))
    return columns


def _price_columns(data: MarketData) -> dict[str, Any]:
    close = np.where(data.quoted, data.field("close"), np.nan)
    columns = {name: np.full(len(data.assets), np.nan) for name in PRICE_COLUMNS}
    for index in range(len(data.assets)):
        known = close[:, index][np.isfinite(close[:, index])]
        if not len(known):
            continue
        returns = np.diff(np.log(known))
        year = data.frequency.periods_per_year
        numbers = (known[0], known[-1], known.min(), known.max(), known[-1] / known[0] - 1)
        volatility = float(returns.std(ddof=1) * np.sqrt(year)) if len(returns) > 1 else np.nan
        for name, number in zip(PRICE_COLUMNS, (*numbers, volatility), strict=True):
            columns[name][index] = number
    return columns


PRICE_COLUMNS = ("first_close", "last_close", "min_close", "max_close", "return", "volatility")


def _mean(values: Any) -> Any:
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def price_decimals(prices: Any) -> int:
    """Number of decimals to show prices with: those that the data has, from 2 to 8.

    Prices with more, such as computed ones, are shown with five significant digits.
    """
    known = np.asarray(prices, np.float64).ravel()
    known = known[np.isfinite(known) & (known > 0.0)][:SAMPLED]
    if not known.size:
        return FEWEST_DECIMALS
    rounding_error = 4.0 * np.spacing(known)
    for decimals in range(FEWEST_DECIMALS, MOST_DECIMALS + 1):
        if (np.abs(known - np.round(known, decimals)) <= rounding_error).all():
            return decimals
    digits = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(median(known.tolist())))
    return min(max(digits, FEWEST_DECIMALS), MOST_DECIMALS)


def price_text(price: float, decimals: int) -> str:
    """Price with a number of decimals; empty if it is missing."""
    return f"{price:,.{decimals}f}" if np.isfinite(price) else ""


def panel_html(data: MarketData) -> str:
    """HTML table of a panel: its size, and a row for each of the first assets."""
    caption = panel_text(data)
    decimals = price_decimals(data.field("close")) if "close" in data.fields else 0
    columns = summary_columns(data)
    header = ["asset", "rows", "first", "last", "missing", "last close"]
    rows = []
    for index, asset in enumerate(data.assets):
        listed = int(columns["rows"][index])
        missing = int(columns["halted"][index]) / listed if listed else 1.0
        close = columns["last_close"][index] if decimals else np.nan
        ends = (columns[name][index] for name in ("first", "last"))
        days = ("" if np.isnat(end) else short_time(end) for end in ends)
        rows.append([asset, f"{listed:,}", *days, f"{missing:.1%}", price_text(close, decimals)])
    return html_table(caption, header, rows)


def panel_text(data: MarketData) -> str:
    """Size, dates, frequency, fields and missing share of a panel in one line."""
    if not len(data):
        return f"MarketData(no rows, {len(data.assets)} assets, fields {name_list(data.fields)})"
    halted = (data.listed & ~data.quoted).sum() / max(1, data.listed.sum())
    return (
        f"MarketData({len(data):,} rows, {len(data.assets):,} assets, "
        f"{short_time(data.times[0])} to {short_time(data.times[-1])}, every "
        f"{data.frequency.name}, fields {name_list(data.fields)}; {halted:.1%} missing)"
    )


def plot(
    data: MarketData, field: str, assets: Sequence[str] | None, relative: bool, ax: Any
) -> Any:
    """Draw a line for each asset, see `MarketData.plot`."""
    axes = new_axes("MarketData.plot") if ax is None else ax
    names = data.assets if assets is None else tuple(assets)
    for name in names:
        values = data.field(field)[:, data.asset(name)]
        if relative:
            known = np.flatnonzero(np.isfinite(values))
            values = values / values[known[0]] if len(known) else values
        axes.plot(data.times, values, label=name, linewidth=1)
    axes.set_ylabel(f"{field}, first = 1" if relative else field)
    if len(names) <= LEGEND_LINES:
        axes.legend()
    return axes


def new_axes(purpose: str, rows: int = 1) -> Any:
    """Axes of a new figure, one or several above each other with the same times."""
    pyplot = optional_import("matplotlib.pyplot", "report", purpose)
    return pyplot.subplots(rows, 1, sharex=True, layout="constrained")[1]
