"""Returns by month, as a table whose colours tell gains from losses."""

from __future__ import annotations

import numpy as np

from sekai.evaluation.episode import Episode
from sekai.evaluation.report.markup import Markup, element, joined
from sekai.evaluation.report.numbers import shown
from sekai.evaluation.report.section import MOST_SEEDS, Subject
from sekai.evaluation.report.series import is_relative, monthly_returns

__all__ = ["months_block"]

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
STRONG = 0.08
"""The monthly return at which a colour is at its strongest."""


def months_block(subject: Subject) -> Markup | None:
    """A table for each episode of the agent, and of its baselines on the first seed."""
    tables = _tables(subject)
    if not tables:
        return None
    options = [element("option", name, value=place) for place, name in enumerate(tables)]
    chooser = element(
        "label", "Episode ", element("select", *options, data_tables="months"), class_="choice"
    )
    bodies = [
        element("div", table, class_="scroll", data_table=place, hidden=place > 0, tabindex="0",
                role="region", aria_label=f"Returns by month: {name}")
        for place, (name, table) in enumerate(tables.items())
    ]  # fmt: skip
    return element(
        "section",
        element("div", element("h3", "Returns by month"), chooser if len(tables) > 1 else None,
                class_="chart-head"),
        *bodies,
        element("p", "In percent, after costs. The first and the last month may be parts of one.",
                class_="note"),
        class_="card months",
    )  # fmt: skip


def _tables(subject: Subject) -> dict[str, Markup]:
    found: dict[str, Markup] = {}
    for place, (name, outcome) in enumerate(subject.policies.items()):
        for episode in outcome.episodes[: MOST_SEEDS if place == 0 else 1]:
            months = monthly_returns(episode) if is_relative([episode]) else {}
            if len(months) > 1:
                found[f"{subject.labels[name]}, seed {episode.seed}"] = _table(months, episode)
    return found


def _table(months: dict[tuple[int, int], float], episode: Episode) -> Markup:
    years = sorted({year for year, _ in months})
    head = element("tr", *(element("th", text, scope="col") for text in ("Year", *MONTHS, "All")))
    rows = [
        element("tr", element("th", year, scope="row"),
                *(_cell(months.get((year, month))) for month in range(1, 13)),
                _cell(_year(months, year), "total"))
        for year in years
    ]  # fmt: skip
    caption = element("caption", f"Returns by month, seed {episode.seed}", class_="unseen")
    return element(
        "table", caption, element("thead", head), element("tbody", joined(*rows)), class_="heat"
    )


def _year(months: dict[tuple[int, int], float], year: int) -> float:
    return float(np.prod([1 + grown for (found, _), grown in months.items() if found == year]) - 1)


def _cell(grown: float | None, kind: str = "") -> Markup:
    if grown is None or not np.isfinite(grown):
        return element("td", class_=kind or None)
    side = "gain" if grown >= 0 else "loss"
    strength = round(100 * min(abs(grown) / STRONG, 1.0))
    text = shown(grown, "percent").rstrip("%")
    return element("td", text, class_=f"{side} {kind}".strip(), style=f"--strength:{strength}%")
