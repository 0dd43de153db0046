"""How accounts grew, and how far they fell, beside each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sekai.evaluation.episode import Episode
from sekai.evaluation.report.chart import Chart, Panel, View, band, line, stacked
from sekai.evaluation.report.section import Section, Subject, x_of
from sekai.evaluation.report.sections.members import members_chart
from sekai.evaluation.report.sections.months import months_block
from sekai.evaluation.report.sections.risk import risk_chart
from sekai.evaluation.report.series import (
    Floats,
    aligned,
    drawdown,
    has_equity,
    is_relative,
    wealth,
)

__all__ = ["growth_chart", "growth_section", "spread"]

FEW_SEEDS = 10
"""Below this a band of quantiles would be made up: the lowest and the highest are shown."""


def growth_section(subject: Subject) -> Section | None:
    """Equity and drawdown, months and rolling risk; rewards where there are no accounts."""
    if not subject.episodes:
        return None
    if not has_equity(subject.all_episodes):
        blocks = [_rewards_chart(subject)] if len(subject.episodes[0].rewards) > 1 else []
        return Section(name="growth", title="Rewards", blocks=[*blocks]) if blocks else None
    found = [
        growth_chart(subject), members_chart(subject), months_block(subject), risk_chart(subject)
    ]  # fmt: skip
    return Section(name="growth", title="Growth", blocks=[one for one in found if one is not None])


def growth_chart(subject: Subject) -> Chart:
    """Growth and drawdown of all policies."""
    relative = is_relative(subject.all_episodes)
    kind = "percent" if relative else "money"
    panels = [
        Panel("Growth of the account" if relative else "Gain, in money", kind, 2.2),
        Panel("Drawdown: below the highest so far", kind),
    ]
    makers: list[Callable[[Episode], Floats]] = [
        lambda episode: wealth(episode, relative),
        lambda episode: drawdown(episode, relative),
    ]
    return Chart(
        title="Equity and drawdown",
        views=_views(subject, panels, makers),
        choice="Episodes",
        note=spread_note(len(subject.episodes)),
        height=560,
    )


def spread(rows: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """The lower edge, the median and the upper edge of series of several seeds."""
    table = aligned(rows)
    edges = (0.0, 1.0) if len(rows) < FEW_SEEDS else (0.1, 0.9)
    low, middle, high = np.quantile(table, [edges[0], 0.5, edges[1]], axis=0)
    return low, middle, high


def spread_note(seeds: int) -> str:
    """What the band means, for so many seeds."""
    if seeds < 2:
        return ""
    edges = (
        "from the lowest to the highest"
        if seeds < FEW_SEEDS
        else "from the 10th to the 90th of 100"
    )
    return (
        f"Lines are medians over {seeds} episodes; the band of the first reaches {edges}. An "
        "episode that ended early stays at what it ended with."
    )


def _rewards_chart(subject: Subject) -> Chart:
    return Chart(
        title="Rewards, added up",
        views=_views(
            subject,
            [Panel("Sum of rewards so far")],
            [lambda episode: np.append(0.0, np.cumsum(episode.rewards))],
        ),
        choice="Episodes",
        note=spread_note(len(subject.episodes)),
    )


def _views(
    subject: Subject, panels: list[Panel], makers: list[Callable[[Episode], Floats]]
) -> dict[str, View]:
    """All seeds together, where there are several, then one by one."""
    most = subject.most_points(len(subject.single) * len(subject.played) * len(panels))
    views: dict[str, View] = {}
    if len(subject.episodes) > 1 or not subject.paired:
        views["All seeds"] = _together(subject, panels, makers)
    for place, episode in enumerate(subject.single):
        dates = episode.times is not None
        views[f"Seed {episode.seed}"] = View(
            traces=[
                line(x_of(outcome.episodes[place], dates), maker(outcome.episodes[place]),
                     subject.labels[name], subject.styles[name], panel=panel,
                     kind=panels[panel].kind, most=most)
                for name, outcome in reversed(subject.played.items())
                for panel, maker in enumerate(makers)
            ],
            layout=stacked(panels, dates=dates, agent_last=True),
        )  # fmt: skip
    return views


def _together(
    subject: Subject, panels: list[Panel], makers: list[Callable[[Episode], Floats]]
) -> View:
    dates = subject.has_shared_dates()
    bands, lines = [], []
    agent = next(iter(subject.played))
    for name, outcome in reversed(subject.played.items()):
        for panel, maker in enumerate(makers):
            longest = max(outcome.episodes, key=lambda episode: len(episode.rewards))
            low, middle, high = spread([maker(episode) for episode in outcome.episodes])
            x = x_of(longest, dates)
            label, style, kind = subject.labels[name], subject.styles[name], panels[panel].kind
            # Bands of all would hide each other: how baselines spread is in the section on seeds.
            bands += band(x, low, high, label, style, panel=panel) if name == agent else []
            lines.append(line(x, middle, label, style, panel=panel, kind=kind))
    return View(traces=bands + lines, layout=stacked(panels, dates=dates, agent_last=True))
