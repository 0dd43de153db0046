"""What was held over time, and how much of it."""

from __future__ import annotations

import numpy as np

from sekai.evaluation.episode import Episode
from sekai.evaluation.report.chart import (
    COLOURS,
    Chart,
    Panel,
    Style,
    Trace,
    View,
    line,
    plain,
    stacked,
    style_of,
)
from sekai.evaluation.report.section import MOST_SEEDS, Section, Subject, x_of
from sekai.evaluation.report.sections.trades import trades_chart
from sekai.evaluation.report.series import Floats
from sekai.evaluation.report.thinning import kept_points

__all__ = ["holdings_section", "largest"]

MOST_ASSETS = 11
"""Shown by name; others are added up."""

CASH = "$cash"
EXPOSURES = (Style("$0", "solid", ""), Style("$1", "dash", ""), Style("$2", "dot", ""))


def holdings_section(subject: Subject) -> Section | None:
    """Weights, exposures and trades."""
    found = [_weights_chart(subject), trades_chart(subject)]
    blocks = [one for one in found if one is not None]
    return Section(name="holdings", title="Holdings", blocks=[*blocks]) if blocks else None


def _weights_chart(subject: Subject) -> Chart | None:
    shown = {
        f"{subject.labels[name]}, seed {episode.seed}": episode
        for place, (name, outcome) in enumerate(subject.policies.items())
        for episode in outcome.episodes[: MOST_SEEDS if place == 0 else 1]
        if episode.weights is not None and len(episode.weights) > 1
    }
    if not shown:
        return None
    widest = max(min(len(episode.assets), MOST_ASSETS) + 4 for episode in shown.values())
    most = subject.most_points(len(shown) * widest)
    return Chart(
        title="Weights and exposures",
        views={name: _view(episode, most) for name, episode in shown.items()},
        choice="Episode",
        note="Weights are shares of equity after each step; what is sold short and borrowed is "
        "below the line.",
        height=560,
    )


def _view(episode: Episode, most: int) -> View:
    assert episode.weights is not None
    dates = episode.times is not None
    x = x_of(episode, dates)[1 : len(episode.weights) + 1]
    panels = [Panel("Weights", "percent", 2.2), Panel("Exposures", "percent")]
    # One choice of rows for all areas, as they lie on each other: where cash is most and least.
    rows = kept_points(episode.weights[:, -1], most)
    traces: list[Trace] = []
    for place, (name, weights) in enumerate(largest(episode).items()):
        colour = CASH if name == "Cash" else style_of(place).colour
        traces += _areas(x[rows], weights[rows], name, colour, hatched=place >= COLOURS)
    held = episode.weights[:, :-1]
    exposures = {"Gross": np.abs(held).sum(axis=1), "Net": held.sum(axis=1)}
    exposures["Largest"] = np.abs(held).max(axis=1, initial=0.0)
    for style, (name, values) in zip(EXPOSURES, exposures.items(), strict=True):
        drawn = line(x, values, name, style, panel=1, kind="percent", most=most)
        traces.append(drawn | {"showlegend": True, "legend": "legend2"})
    return View(traces=traces, layout=stacked(panels, dates=dates))


def largest(episode: Episode) -> dict[str, Floats]:
    """Weights by name: the assets held most, all others as one, cash."""
    assert episode.weights is not None
    held = episode.weights[:, :-1]
    names = episode.assets or tuple(f"Asset {place}" for place in range(held.shape[1]))
    order = np.argsort(-np.abs(held).mean(axis=0), kind="stable")
    chosen = np.sort(order[:MOST_ASSETS])
    found = {names[place]: held[:, place] for place in chosen}
    if len(order) > MOST_ASSETS:
        found[f"{len(order) - MOST_ASSETS} others"] = held[:, order[MOST_ASSETS:]].sum(axis=1)
    return found | {"Cash": episode.weights[:, -1]}


def _areas(x: Floats, weights: Floats, name: str, colour: str, *, hatched: bool) -> list[Trace]:
    """What is long above the line and what is short below it: two stacks under one name."""
    area: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": x,
        "line": {"width": 0.6, "color": colour},
        "fillcolor": f"{colour}/0.75",
        "yhoverformat": ".1%",
        "legendgroup": plain(name),
    }
    if hatched and colour != CASH:
        area["fillpattern"] = {
            "shape": "/",
            "size": 7,
            "bgcolor": f"{colour}/0.75",
            "fgcolor": "$card/0.8",
        }
    long: Trace = {**area, "y": np.fmax(weights, 0).astype(np.float32), "stackgroup": "long"}
    if not (weights < -1e-9).any():
        return [long]
    short = {**area, "y": np.fmin(weights, 0).astype(np.float32), "stackgroup": "short"}
    return [long, short | {"showlegend": False}]
