"""What was told while the agent learnt."""

from __future__ import annotations

import numpy as np

from sekai.evaluation.report.chart import Chart, Panel, View, line, plain, stacked, style_of
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.series import Floats

__all__ = ["learning_section"]

STEPS = "steps"


def learning_section(subject: Subject) -> Section | None:
    """A curve for each name, over steps."""
    told = subject.evaluation.learning
    steps = np.array(told.get(STEPS, []), np.float64)
    views = {
        name: _view(name, steps[: len(values)], np.array(values[: len(steps)], np.float64))
        for name, values in sorted(told.items(), key=_interest)
        if name != STEPS and np.isfinite(values).sum() > 1 and len(steps) > 1
    }
    if not views:
        return None
    chart = Chart(
        title="Learning curves",
        views=views,
        choice="Figure",
        note="As they were told while the agent learnt; they are no part of the judgement.",
    )
    return Section(name="learning", title="Learning", blocks=[chart])


def _interest(column: tuple[str, list[float]]) -> int:
    """What it was judged by while it learnt first, then what it was paid, then all else."""
    name = column[0]
    return 2 if not name.endswith("return") else 0 if name.startswith("eval/") else 1


def _view(name: str, steps: Floats, values: Floats) -> View:
    known = np.isfinite(values)
    drawn = line(steps[known], values[known], name, style_of(0))
    look = {"mode": "lines+markers", "marker": {"color": "$0", "size": 5}, "showlegend": False}
    return View(traces=[drawn | look], layout=stacked([Panel(plain(name))], x_title="steps learnt"))
