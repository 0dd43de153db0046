"""How the numbers were made, so that anybody can make them again."""

from __future__ import annotations

import math

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.labels import label_of
from sekai.evaluation.report.markup import Markup, element
from sekai.evaluation.report.numbers import moment, shown
from sekai.evaluation.report.section import Section, Subject

__all__ = ["making_block", "making_section"]


def making_section(subject: Subject) -> Section:
    """The command, the versions, the data and the settings."""
    return Section(
        name="making", title="How it was made", blocks=[making_block(subject.evaluation)]
    )


def making_block(evaluation: Evaluation, title: str = "How it was made") -> Markup:
    """All that identifies an evaluation."""
    made = evaluation.provenance
    rows = {
        "Made": moment(made.created),
        "Environment": f"{evaluation.env} ({evaluation.task.replace('_', ' ')})",
        "Agent": made.model or next(iter(evaluation.policies)),
        "Ranked by": _ranking(evaluation),
        "Seeds": ", ".join(map(str, evaluation.seeds)),
        "Steps of a year": _periods(evaluation),
        "Data": made.data_digest or "simulated from the seeds",
    }
    return element(
        "section",
        element("h3", title),
        element("pre", element("code", made.command), tabindex="0", aria_label="Command")
        if made.command
        else None,
        _list(rows),
        _folded("Versions", made.versions),
        _folded("Settings", made.settings),
        class_="card",
    )


def _ranking(evaluation: Evaluation) -> str:
    way = "higher" if evaluation.higher_is_better else "lower"
    return f"{label_of(evaluation.headline).text}, {way} is better"


def _periods(evaluation: Evaluation) -> str:
    found = evaluation.periods_per_year
    return f"{shown(found)}, from the dates" if math.isfinite(found) else "not of time"


def _list(rows: dict[str, str]) -> Markup:
    pairs = [
        part for name, text in rows.items() for part in (element("dt", name), element("dd", text))
    ]
    return element("dl", *pairs, class_="facts")


def _folded(title: str, rows: dict[str, str]) -> Markup | None:
    return element("div", element("h4", title), _list(rows)) if rows else None
