"""Episode by episode: the same seeds for all policies, joined by lines."""

from __future__ import annotations

import math

import numpy as np

from sekai.evaluation.evaluation import Comparison
from sekai.evaluation.report.chart import Chart, Panel, Trace, View, plain, stacked
from sekai.evaluation.report.labels import label_of, policy_label
from sekai.evaluation.report.numbers import AXIS_FORMATS
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.series import Floats

__all__ = ["metrics_chart", "seeds_section"]


def seeds_section(subject: Subject) -> Section | None:
    """Metrics by seed, and by how much the agent was ahead on each."""
    found = [metrics_chart(subject), _differences_chart(subject)]
    blocks = [one for one in found if one is not None]
    return Section(name="seeds", title="Seeds", blocks=[*blocks]) if blocks else None


def metrics_chart(subject: Subject) -> Chart | None:
    """Every metric of every policy, seed by seed."""
    headline = subject.evaluation.headline
    named = dict.fromkeys([headline, *subject.evaluation.agent.by_seed])
    views = {
        label_of(metric).text: _view(subject, metric)
        for metric in named
        if len(subject.evaluation.seeds) > 1
        and np.isfinite(subject.evaluation.agent.by_seed.get(metric, [])).any()
    }
    if not views:
        return None
    return Chart(
        title="Each seed, each policy",
        views=views,
        choice="Metric",
        note=("A thin line joins what all came to on one seed. " if subject.paired else "")
        + "Bars beside the dots are the intervals of the overview.",
        height=430,
    )


def _view(subject: Subject, metric: str) -> View:
    label = label_of(metric)
    shown = [name for name, outcome in subject.policies.items() if metric in outcome.by_seed]
    values = [np.array(subject.policies[name].by_seed[metric], np.float64) for name in shown]
    seeds = min(map(len, values)) if subject.paired else 0
    traces = [_joined(np.stack([row[:seeds] for row in values]))] if seeds else []
    for place, name in enumerate(shown):
        traces.append(_dots(subject, name, place, values[place]))
        if metric in subject.policies[name].metrics:
            traces.append(_interval(subject, name, place, metric))
    layout = stacked([Panel(plain(label.heading), label.kind)])
    layout["xaxis"] = {
        "tickvals": list(range(len(shown))),
        "ticktext": [plain(subject.labels[name]) for name in shown],
        "range": [-0.5, len(shown) - 0.5],
        "automargin": True,
        "showgrid": False,
    }
    return View(traces=traces, layout=layout | {"hovermode": "closest", "showlegend": False})


def _joined(values: Floats) -> Trace:
    """A line for each seed over all policies: one trace with holes, as thousands would be slow."""
    holes = np.full((1, values.shape[1]), np.nan)
    places = np.tile(np.arange(len(values) + 1, dtype=np.float64), values.shape[1])
    return {
        "type": "scatter",
        "mode": "lines",
        "x": places,
        "y": np.vstack([values, holes]).T.ravel().astype(np.float32),
        "line": {"color": "$ink/0.18", "width": 1},
        "hoverinfo": "skip",
    }


def _dots(subject: Subject, name: str, place: int, values: Floats) -> Trace:
    style = subject.styles[name]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(subject.labels[name]),
        "x": [place] * len(values),
        "y": values.astype(np.float32),
        "customdata": _seeds(subject, name)[: len(values)],
        "hovertemplate": "seed %{customdata}: %{y:.4~g}",
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 9, "opacity": 0.85},
    }


def _seeds(subject: Subject, name: str) -> list[int]:
    """Its own where they are known: runs that are compared may have had others."""
    own = [episode.seed for episode in subject.policies[name].episodes]
    return own or subject.evaluation.seeds


def _interval(subject: Subject, name: str, place: int, metric: str) -> Trace:
    """Beside the dots, a little to the right: what all seeds together say."""
    found = subject.policies[name].metrics[metric]
    return _bar(place + 0.2, found.value, found.low, found.high, subject.styles[name].colour)


def _bar(x: float, value: float, low: float, high: float, colour: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [value],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [max(high - value, 0.0)],
            "arrayminus": [max(value - low, 0.0)],
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {"color": colour, "symbol": "line-ew-open", "size": 14, "line": {"width": 3}},
        "hovertemplate": "all seeds: %{y:.4~g}<extra></extra>",
    }


def _differences_chart(subject: Subject) -> Chart | None:
    """The agent less each baseline, seed by seed, such that above nought is better."""
    compared = [one for one in subject.evaluation.comparisons if _is_paired(subject, one)]
    if not compared:
        return None
    traces = [trace for place, one in enumerate(compared) for trace in _gap(subject, place, one)]
    label = label_of(compared[0].metric)
    layout = stacked([Panel(plain(f"{label.heading}: ahead by"), label.kind)])
    layout["yaxis"] |= {"zeroline": True, "tickformat": AXIS_FORMATS.get(label.kind, "")}
    layout["xaxis"] = {
        "tickvals": list(range(len(compared))),
        "ticktext": [plain(policy_label(one.baseline)) for one in compared],
        "range": [-0.5, len(compared) - 0.5],
        "automargin": True,
        "showgrid": False,
    }
    layout |= {"hovermode": "closest", "showlegend": False}
    return Chart(
        title="How far the agent was ahead, seed by seed",
        views={"": View(traces=traces, layout=layout)},
        note="Above nought the agent was better on that seed. Bars are paired intervals, "
        "each alone; the verdict counts all baselines together.",
        height=400,
    )


def _is_paired(subject: Subject, comparison: Comparison) -> bool:
    baseline = subject.policies.get(comparison.baseline)
    return (
        len(subject.evaluation.seeds) > 1
        and baseline is not None
        and comparison.metric in baseline.by_seed
        and comparison.metric in subject.evaluation.agent.by_seed
        and math.isfinite(comparison.difference.value)
    )


def _gap(subject: Subject, place: int, comparison: Comparison) -> list[Trace]:
    agent = np.array(subject.evaluation.agent.by_seed[comparison.metric], np.float64)
    other = np.array(subject.policies[comparison.baseline].by_seed[comparison.metric], np.float64)
    sign = 1.0 if subject.evaluation.higher_is_better else -1.0
    found = comparison.difference
    colour = subject.styles[comparison.baseline].colour
    return [
        _dots(subject, comparison.baseline, place, sign * (agent - other)),
        _bar(place + 0.2, found.value, found.low, found.high, colour),
    ]
