"""Trades on the prices that they were made at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode, Fills
from sekai.evaluation.report.chart import Chart, Panel, Style, Trace, View, line, stacked
from sekai.evaluation.report.section import Subject, x_of
from sekai.evaluation.report.series import Floats

__all__ = ["trades_chart"]

MOST_VIEWS = 60
MOST_FILLS = 1000
"""On one chart: of more, the largest are shown."""

PRICE = Style("$ink", "solid", "")


def trades_chart(subject: Subject) -> Chart | None:
    """The agent's fills, by asset and seed."""
    views: dict[str, View] = {}
    for episode in subject.episodes:
        for asset in _traded(episode):
            if len(views) < MOST_VIEWS:
                views[f"{asset}, seed {episode.seed}"] = _view(episode, asset)
    if not views:
        return None
    return Chart(
        title="Trades on prices",
        views=views,
        choice="Asset",
        note="Triangles that point up are purchases, those that point down are sales; of more than "
        f"{MOST_FILLS:,} the largest are shown.",
    )


def _traded(episode: Episode) -> list[str]:
    """Assets with fills, those traded most first."""
    if episode.fills is None or not len(episode.fills):
        return []
    names, counts = np.unique(episode.fills.asset, return_counts=True)
    return [str(names[place]) for place in np.argsort(-counts, kind="stable")]


def _view(episode: Episode, asset: str) -> View:
    assert episode.fills is not None
    dates = episode.times is not None
    x = x_of(episode, dates)
    traces: list[Trace] = []
    if episode.prices is not None and asset in episode.assets:
        prices = episode.prices[:, episode.assets.index(asset)]
        traces.append(line(x[: len(prices)], prices, "Price", PRICE, kind="money", most=900))
    chosen = _largest(episode.fills, asset)
    # A step leads from one moment to the next; what it traded is in the account at its end.
    at = x[np.clip(episode.fills.step[chosen] + 1, 0, len(x) - 1)]
    units, price = episode.fills.units[chosen], episode.fills.price[chosen]
    for name, side, colour, symbol in (
        ("Bought", units > 0, "$0", "triangle-up"),
        ("Sold", units < 0, "$1", "triangle-down"),
    ):
        traces.append(_marks(name, at[side], price[side], np.abs(units[side]), colour, symbol))
    return View(traces=traces, layout=stacked([Panel("Price", "number")], dates=dates))


def _largest(fills: Fills, asset: str) -> NDArray[np.int64]:
    found = np.flatnonzero(fills.asset == asset)
    size = np.abs(fills.units[found] * fills.price[found])
    return np.sort(found[np.argsort(-size, kind="stable")[:MOST_FILLS]])


def _marks(name: str, x: Floats, y: Floats, units: Floats, colour: str, symbol: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": y.astype(np.float32),
        "customdata": units.astype(np.float32),
        "hovertemplate": "%{customdata:,.4~g} at %{y:,.4~f}",
        "marker": {
            "color": colour,
            "symbol": symbol,
            "size": 11,
            "line": {"width": 1, "color": "$card"},
        },
    }
