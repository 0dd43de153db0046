"""Seeds, training and run-comparison sections: metrics by seed, learning curves, several runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sekai.evaluation.compare import compare
from sekai.evaluation.evaluation import BaselineComparison, Evaluation, Interval
from sekai.evaluation.report.chart import (
    AXIS_FORMATS,
    Chart,
    ChartView,
    Floats,
    Panel,
    Trace,
    line,
    stacked,
    style_of,
)
from sekai.evaluation.report.elements import (
    UNDEFINED,
    Cell,
    Markup,
    ReportContext,
    Section,
    card,
    element,
    format_number,
    label_of,
    policy_label,
    policy_name,
    table,
)
from sekai.evaluation.report.overview import (
    STANDING_LABELS,
    flags_block,
    interval_cell,
    provenance_block,
)
from sekai.evaluation.report.performance import performance_section
from sekai.evaluation.report.summary import verdict_of

__all__ = ["differences", "runs_sections", "seeds_section", "training_section"]

STEPS = "steps"

COMPARABLE: dict[str, Callable[[Evaluation], object]] = {
    "environment": lambda run: run.env,
    "data": lambda run: run.provenance.judged_digest or run.provenance.data_digest,
    "seeds": lambda run: tuple(run.seeds),
    "headline metric": lambda run: run.headline,
    "steps per year": lambda run: repr(run.periods_per_year),
}
"""Properties that must be equal for runs to be comparable."""


def seeds_section(context: ReportContext) -> Section | None:
    """Metrics by seed, and paired differences."""
    charts = [_metrics_chart(context), _differences_chart(context)]
    blocks = [chart for chart in charts if chart is not None]
    return Section(name="seeds", title="Seeds", blocks=[*blocks]) if blocks else None


def _metrics_chart(context: ReportContext) -> Chart | None:
    by_seed = context.evaluation.agent.by_seed
    if len(context.evaluation.seeds) < 2:
        return None
    views = {
        label_of(metric).text: _metric_view(context, metric)
        for metric in dict.fromkeys([context.evaluation.headline, *by_seed])
        if np.isfinite(by_seed.get(metric, [])).any()
    }
    if not views:
        return None
    lines = "Thin lines join the policies on one seed. " if context.paired else ""
    return Chart(
        title="Metrics by seed",
        views=views,
        choice="Metric",
        note=f"{lines}Bars beside the dots are confidence intervals over all seeds.",
        height=430,
    )


def _metric_view(context: ReportContext, metric: str) -> ChartView:
    label = label_of(metric)
    names = [name for name, outcome in context.policies.items() if metric in outcome.by_seed]
    values = [np.array(context.policies[name].by_seed[metric], np.float64) for name in names]
    seeds = min(map(len, values)) if context.paired else 0
    traces = [_seed_lines(np.stack([row[:seeds] for row in values]))] if seeds else []
    for index, name in enumerate(names):
        traces.append(_dots(context, name, index, values[index]))
        interval = context.policies[name].metrics.get(metric)
        if interval is not None:
            traces.append(_interval_bar(index + 0.2, interval, context.styles[name].colour))
    layout = stacked([Panel(label.heading, label.kind)])
    layout["xaxis"] = _category_axis([context.labels[name] for name in names])
    return ChartView(traces=traces, layout=layout | {"hovermode": "closest", "showlegend": False})


def _category_axis(labels: list[str]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "range": [-0.5, len(labels) - 0.5],
        "automargin": True,
        "showgrid": False,
    }


def _seed_lines(values: Floats) -> Trace:
    """Lines of all seeds over policies, as one trace with gaps for speed."""
    gaps = np.full((1, values.shape[1]), np.nan)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.tile(np.arange(len(values) + 1, dtype=np.float64), values.shape[1]),
        "y": np.vstack([values, gaps]).T.ravel().astype(np.float32),
        "line": {"color": "$ink/0.18", "width": 1},
        "hoverinfo": "skip",
    }


def _dots(context: ReportContext, name: str, index: int, values: Floats) -> Trace:
    style = context.styles[name]
    # Compared runs may have different seeds.
    own = [episode.seed for episode in context.policies[name].episodes]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": context.labels[name],
        "x": [index] * len(values),
        "y": values.astype(np.float32),
        "customdata": (own or context.evaluation.seeds)[: len(values)],
        "hovertemplate": "seed %{customdata}: %{y:.4~g}",
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 9, "opacity": 0.85},
    }


def _interval_bar(x: float, interval: Interval, colour: str) -> Trace:
    value = interval.value
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [value],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [max(interval.high - value, 0.0)],
            "arrayminus": [max(value - interval.low, 0.0)],
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {"color": colour, "symbol": "line-ew-open", "size": 14, "line": {"width": 3}},
        "hovertemplate": "all seeds: %{y:.4~g}<extra></extra>",
    }


def _differences_chart(context: ReportContext) -> Chart | None:
    """Paired differences by seed, positive where the agent is better."""
    comparisons = [
        comparison
        for comparison in context.evaluation.comparisons
        if _is_paired(context, comparison)
    ]
    if not comparisons:
        return None
    sign = 1.0 if context.evaluation.higher_is_better else -1.0
    traces = []
    for index, comparison in enumerate(comparisons):
        name, metric = comparison.baseline, comparison.metric
        agent = np.array(context.evaluation.agent.by_seed[metric], np.float64)
        other = np.array(context.policies[name].by_seed[metric], np.float64)
        traces += [
            _dots(context, name, index, sign * (agent - other)),
            _interval_bar(index + 0.2, comparison.difference, context.styles[name].colour),
        ]
    label = label_of(comparisons[0].metric)
    layout = stacked([Panel(f"{label.heading}: paired difference", label.kind)])
    layout["yaxis"] |= {"zeroline": True, "tickformat": AXIS_FORMATS.get(label.kind, "")}
    layout["xaxis"] = _category_axis(
        [policy_label(comparison.baseline) for comparison in comparisons]
    )
    layout |= {"hovermode": "closest", "showlegend": False}
    return Chart(
        title="Paired differences by seed",
        views={"": ChartView(traces=traces, layout=layout)},
        note="Above 0 the agent was better on that seed. Bars are paired confidence intervals of "
        "single comparisons; the verdict is adjusted for all baselines.",
        height=400,
    )


def _is_paired(context: ReportContext, comparison: BaselineComparison) -> bool:
    baseline = context.policies.get(comparison.baseline)
    return (
        len(context.evaluation.seeds) > 1
        and baseline is not None
        and comparison.metric in baseline.by_seed
        and comparison.metric in context.evaluation.agent.by_seed
        and math.isfinite(comparison.difference.value)
    )


def training_section(context: ReportContext) -> Section | None:
    """Learning curves."""
    curves = context.evaluation.learning
    steps = np.array(curves.get(STEPS, []), np.float64)
    views = {
        name: _curve_view(name, steps[: len(values)], np.array(values[: len(steps)], np.float64))
        for name, values in sorted(curves.items(), key=lambda curve: _curve_rank(curve[0]))
        if name != STEPS and np.isfinite(values).sum() > 1 and len(steps) > 1
    }
    if not views:
        return None
    chart = Chart(
        title="Learning curves",
        views=views,
        choice="Metric",
        note="As logged during training; not part of the evaluation.",
    )
    return Section(name="training", title="Training", blocks=[chart])


def _curve_rank(name: str) -> int:
    """Order of curves: evaluation returns, training returns, all others."""
    return 2 if not name.endswith("return") else 0 if name.startswith("eval/") else 1


def _curve_view(name: str, steps: Floats, values: Floats) -> ChartView:
    known = np.isfinite(values)
    drawn = line(steps[known], values[known], name, style_of(0))
    look = {"mode": "lines+markers", "marker": {"color": "$0", "size": 5}, "showlegend": False}
    layout = stacked([Panel(name)], x_title="training steps")
    return ChartView(traces=[drawn | look], layout=layout)


def runs_sections(evaluations: list[Evaluation]) -> list[Section]:
    """Sections of a comparison of several runs."""
    runs = _by_name(evaluations)
    context = _agents_context(runs)
    seeds = _metrics_chart(context)
    overview: list[Markup | Chart] = [
        _comparability_block(evaluations),
        *_paired_table(runs, context),
        _metrics_table(runs, context),
    ]
    flags = [
        flags_block(run.flags, f"Warning flags of {name}")
        for name, run in runs.items()
        if run.flags
    ]
    provenance = [provenance_block(run, name) for name, run in runs.items()]
    sections = [
        Section(name="overview", title="Overview", blocks=overview),
        performance_section(context),
        Section(name="seeds", title="Seeds", blocks=[seeds]) if seeds else None,
        Section(name="validity", title="Validity", blocks=[_validity_table(runs), *flags]),
        Section(name="provenance", title="Provenance", blocks=[*provenance]),
    ]
    return [section for section in sections if section is not None]


def differences(evaluations: list[Evaluation]) -> list[str]:
    """Properties and settings in which runs differ."""
    properties = [
        name
        for name, value_of in COMPARABLE.items()
        if len({value_of(run) for run in evaluations}) > 1
    ]
    settings = sorted({name for run in evaluations for name in run.provenance.settings})
    return properties + [
        f"setting {name}"
        for name in settings
        if len({run.provenance.settings.get(name) for run in evaluations}) > 1
    ]


def _by_name(evaluations: list[Evaluation]) -> dict[str, Evaluation]:
    """Runs by name, numbered where names repeat."""
    runs: dict[str, Evaluation] = {}
    for run in evaluations:
        name, count = run.name, 2
        while name in runs:
            name, count = f"{run.name} ({count})", count + 1
        runs[name] = run
    return runs


def _agents_context(runs: dict[str, Evaluation]) -> ReportContext:
    """Agents of all runs as policies of one evaluation."""
    first = next(iter(runs.values()))
    agents = {name: dataclasses.replace(run.agent, name=name) for name, run in runs.items()}
    paired = len({tuple(run.seeds) for run in runs.values()}) == 1
    together = dataclasses.replace(first, policies=agents, comparisons=[], sensitivity=None)
    return ReportContext(together, paired=paired, labels={name: name for name in agents})


def _comparability_block(evaluations: list[Evaluation]) -> Markup:
    different = differences(evaluations)
    phrase, look = "Comparable runs", "good"
    text = "All runs have the same environment, data, seeds, headline metric and settings."
    if different:
        text = f"The runs differ in {', '.join(different)}."
    if set(different) & set(COMPARABLE):
        phrase, look = "Runs are not comparable", "bad"
    elif different:
        phrase, look = "Runs on the same data with different settings", "inconclusive"
    return element(
        "section",
        element("p", "Comparison", class_="eyebrow"),
        element("h2", phrase),
        element("p", text),
        class_=f"card verdict {look}",
    )


def _paired_table(runs: dict[str, Evaluation], context: ReportContext) -> list[Markup]:
    """Paired differences of the other runs to the first; empty where none can be paired."""
    first, *others = runs.items()
    label, rows = label_of(first[1].headline), []
    for name, run in others:
        try:
            comparison = compare(run, first[1], metric=first[1].headline)
        except ValueError:
            continue
        standing = {"first": "ahead", "second": "behind"}.get(comparison.standing, "inconclusive")
        rows.append(
            [
                Cell(policy_name(name, context.styles[name])),
                Cell(element("span", STANDING_LABELS[standing], class_=f"badge {standing}")),
                interval_cell(comparison.interval, label.kind),
                Cell(format_number(comparison.p_value, "p_value"), comparison.p_value),
                Cell(f"{comparison.pairs:,} {comparison.paired_by}", comparison.pairs),
            ]
        )
    heads = ["Run", f"Against {first[0]}", f"Difference in {label.text}", "p-value", "Pairs"]
    title = f"Paired differences to {first[0]}"
    note = "Only runs judged on the same dates or seeds; p-values are of single comparisons."
    return [card(title, table(heads, rows, title), note)] if rows else []


def _metrics_table(runs: dict[str, Evaluation], context: ReportContext) -> Markup:
    headlines = [run.headline for run in runs.values()]
    others = [name for run in runs.values() for name in run.agent.metrics]
    metrics = list(dict.fromkeys(headlines + others))
    rows = []
    for name, run in runs.items():
        verdict = verdict_of(run)
        rows.append(
            [
                Cell(policy_name(name, context.styles[name])),
                Cell(element("span", verdict.phrase, class_=f"badge {verdict.look}")),
                *(
                    interval_cell(run.agent.metrics.get(metric), label_of(metric).kind)
                    for metric in metrics
                ),
            ]
        )
    heads: list[object] = ["Run", "Verdict", *(label_of(metric).text for metric in metrics)]
    note = "Metrics of each agent with confidence intervals. A dash is an undefined value."
    return card("Metrics by run", table(heads, rows, "Metrics of all runs"), note)


def _validity_table(runs: dict[str, Evaluation]) -> Markup:
    rows = []
    for name, run in runs.items():
        errors = sum(flag.level == "error" for flag in run.flags)
        counts = [errors, len(run.flags) - errors]
        cells = [Cell(name), *(Cell(str(count), count) for count in counts)]
        deflated_sharpe = run.deflated_sharpe
        if deflated_sharpe is None:
            cells += [Cell(UNDEFINED)] * 4
        else:
            cells += [
                Cell(f"{deflated_sharpe.trials:,}", deflated_sharpe.trials),
                Cell(
                    format_number(deflated_sharpe.probabilistic, "probability"),
                    deflated_sharpe.probabilistic,
                ),
                Cell(
                    format_number(deflated_sharpe.deflated, "probability"), deflated_sharpe.deflated
                ),
                Cell(
                    format_number(deflated_sharpe.minimum_track_record, "count"),
                    deflated_sharpe.minimum_track_record,
                ),
            ]
        rows.append(cells)
    heads = [
        "Run",
        "Errors",
        "Warnings",
        "Trials",
        "Probabilistic Sharpe",
        "Deflated Sharpe",
        "Minimum track record",
    ]
    note = (
        "Probabilities that the true Sharpe ratio is above 0, and above the expected best of as "
        "many trials without skill."
    )
    title = "Deflated Sharpe ratio and flags"
    return card(title, table(heads, rows, f"{title} of all runs"), note)
