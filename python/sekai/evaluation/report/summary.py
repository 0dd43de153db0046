"""Summary of an evaluation: one sentence, four numbers and a picture of equity and drawdown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sekai.evaluation.evaluation import (
    BaselineComparison,
    DeflatedSharpe,
    Episode,
    Evaluation,
    Interval,
    table_rows,
)
from sekai.evaluation.report.chart import (
    Floats,
    aligned,
    downsample,
    has_equity,
    is_relative,
    wealth,
)
from sekai.evaluation.report.elements import (
    Markup,
    ReportContext,
    bounds,
    element,
    format_number,
    format_signed,
    label_of,
    magnitude,
    policy_label,
)
from sekai.evaluation.statistics.bootstrap import block_length

__all__ = [
    "EvaluationVerdict",
    "SummaryNumber",
    "best_baseline",
    "bootstrap_band",
    "deflated_sharpe_sentence",
    "notebook_html",
    "quantile_band",
    "summary_band",
    "summary_numbers",
    "summary_sentence",
    "verdict_of",
]

MIN_DEFLATED_SHARPE = 0.95

STANDINGS = {
    "ahead": "significantly better than",
    "inconclusive": "not significantly different from",
    "behind": "significantly worse than",
}

FEW_SEEDS = 10
"""Number of seeds below which bands show the range instead of quantiles."""

PATHS = 300
"""Resampled paths of a bootstrap band."""

BAND_POINTS = 400
LEVEL = 0.95

CELL_STYLE = "text-align:left;white-space:nowrap"
SKETCH_COLOURS = ("#0072b2", "#d55e00", "#5b6b7a")
SKETCH_SIZE = (420, 120)
SKETCH_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationVerdict:
    """Verdict on the agent: headline, supporting sentences and colour."""

    phrase: str
    sentences: list[str]
    look: str
    """ "good", "inconclusive" or "bad"."""


def verdict_of(evaluation: Evaluation) -> EvaluationVerdict:
    """Verdict on the agent against its baselines, after correction for trials."""
    phrase, look = _phrase(evaluation)
    sentences = _sentences(evaluation)
    if evaluation.deflated_sharpe is not None:
        sentences.append(deflated_sharpe_sentence(evaluation.deflated_sharpe))
    errors = [flag.message.rstrip(".") for flag in evaluation.flags if flag.level == "error"]
    if not evaluation.is_valid:
        text = "; ".join(errors)
        sentences = [f"{text[:1].upper()}{text[1:]}.", *sentences]
        return EvaluationVerdict(phrase="Results are invalid", sentences=sentences, look="bad")
    return EvaluationVerdict(phrase=phrase, sentences=sentences, look=look)


def _phrase(evaluation: Evaluation) -> tuple[str, str]:
    standings = [comparison.standing for comparison in evaluation.comparisons]
    if not standings:
        return "Not compared with any baseline", "inconclusive"
    count = len(standings)
    if "behind" in standings:
        names = [
            policy_label(comparison.baseline)
            for comparison in evaluation.comparisons
            if comparison.standing == "behind"
        ]
        worse = _listed(names) if len(names) < 4 else f"{len(names)} of {count} baselines"
        return f"Significantly worse than {worse}", "bad"
    ahead = standings.count("ahead")
    if ahead == 0:
        return "Not significantly different from its baselines", "inconclusive"
    if ahead < count:
        return f"Significantly better than {ahead} of {count} baselines", "inconclusive"
    baselines = f"all {ahead} baselines" if ahead > 1 else "its baseline"
    deflated = evaluation.deflated_sharpe
    if deflated is not None and not deflated.deflated >= MIN_DEFLATED_SHARPE:
        return f"Better than {baselines}, but the deflated Sharpe ratio is low", "inconclusive"
    return f"Significantly better than {baselines}", "good"


def _sentences(evaluation: Evaluation) -> list[str]:
    """One sentence for each standing, with the paired differences."""
    sentences = []
    for standing, words in STANDINGS.items():
        those = [
            comparison for comparison in evaluation.comparisons if comparison.standing == standing
        ]
        if those:
            metric = label_of(those[0].metric)
            differences = _listed([_difference(comparison, metric.kind) for comparison in those])
            sentences.append(f"{metric.text} is {words} {differences}.")
    return sentences


def _difference(comparison: BaselineComparison, kind: str) -> str:
    difference = comparison.difference
    value = format_signed(difference.value, kind, magnitude(difference))
    text = f"{value} {bounds(difference, kind)}".strip()
    return f"{policy_label(comparison.baseline)} ({text})"


def deflated_sharpe_sentence(deflated_sharpe: DeflatedSharpe) -> str:
    """Sentence about the deflated Sharpe ratio and the number of trials."""
    trials = f"{deflated_sharpe.trials} trials" if deflated_sharpe.trials != 1 else "a single trial"
    if not deflated_sharpe.is_valid:
        return (
            f"After {trials} on this data, no probability of skill is stated, because the results "
            "are invalid."
        )
    if math.isnan(deflated_sharpe.deflated):
        return f"After {trials} on this data, the deflated Sharpe ratio is undefined."
    value = format_number(deflated_sharpe.deflated, "probability")
    reached = deflated_sharpe.deflated >= MIN_DEFLATED_SHARPE
    relation = "at least" if reached else "below"
    return (
        f"After {trials} on this data, the deflated Sharpe ratio (probability of skill) is "
        f"{value}, {relation} the threshold of {MIN_DEFLATED_SHARPE:.0%}."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryNumber:
    """One of the numbers of the first screen."""

    name: str
    value: str
    note: str
    """Confidence bounds, or what the number is compared with."""


def summary_sentence(evaluation: Evaluation) -> str:
    """Verdict in one sentence: the test against baselines, and both headline values."""
    phrase = verdict_of(evaluation).phrase
    label, own = label_of(evaluation.headline), evaluation.agent.metrics[evaluation.headline]
    value = format_number(own.value, label.kind)
    best = best_baseline(evaluation)
    if best is None:
        return f"{phrase}: {label.text} {value}."
    other = evaluation.policies[best.baseline].metrics[evaluation.headline].value
    return (
        f"{phrase}: {label.text} {value}, against {format_number(other, label.kind)} of the best "
        f"baseline, {policy_label(best.baseline)}."
    )


def best_baseline(evaluation: Evaluation) -> BaselineComparison | None:
    """Comparison with the baseline of the best headline metric; None without a defined one."""
    sign = 1.0 if evaluation.higher_is_better else -1.0

    def value(comparison: BaselineComparison) -> float:
        metrics = evaluation.policies[comparison.baseline].metrics
        return sign * metrics[evaluation.headline].value

    known = [
        comparison
        for comparison in evaluation.comparisons
        if comparison.baseline in evaluation.policies and not math.isnan(value(comparison))
    ]
    return max(known, key=value, default=None)


def summary_numbers(evaluation: Evaluation) -> list[SummaryNumber]:
    """Numbers that matter: risk-adjusted and annual return, drawdown, lead over the best baseline.

    Metrics that the task does not have are replaced by its headline metric and total return.
    """
    choices = (
        ("sharpe", evaluation.headline),
        ("annual_return", "total_return"),
        ("max_drawdown",),
    )
    names = [_first_defined(evaluation, (*metrics, evaluation.headline)) for metrics in choices]
    numbers = [_number(evaluation, name) for name in dict.fromkeys(names) if name is not None]
    best = best_baseline(evaluation)
    return numbers if best is None else [*numbers, _lead(best)]


def _first_defined(evaluation: Evaluation, names: tuple[str, ...]) -> str | None:
    metrics = evaluation.agent.metrics
    return next(
        (name for name in names if name in metrics and not math.isnan(metrics[name].value)), None
    )


def _number(evaluation: Evaluation, metric: str) -> SummaryNumber:
    label, interval = label_of(metric), evaluation.agent.metrics[metric]
    value = format_number(interval.value, label.kind, magnitude(interval))
    return SummaryNumber(name=label.text, value=value, note=_bounds(interval, label.kind))


def _lead(best: BaselineComparison) -> SummaryNumber:
    label, difference = label_of(best.metric), best.difference
    value = format_signed(difference.value, label.kind, magnitude(difference))
    p_value = format_number(best.p_value, "p_value")
    return SummaryNumber(
        name=f"{label.text}, lead over {policy_label(best.baseline)}",
        value=value,
        note=f"{_bounds(difference, label.kind)}, adjusted p {p_value}".lstrip(", "),
    )


def _bounds(interval: Interval, kind: str) -> str:
    text = bounds(interval, kind)
    return f"{interval.level:.0%} interval {text}" if text else ""


def summary_band(episodes: list[Episode], relative: bool) -> tuple[Floats, Floats, str]:
    """Band of the agent's equity, and its explanation.

    Several episodes: quantiles over seeds. One episode: quantiles of block-bootstrapped paths.
    """
    if len(episodes) > 1:
        low, _, high = quantile_band([wealth(episode, relative) for episode in episodes])
        edges = "minimum to maximum" if len(episodes) < FEW_SEEDS else "10% to 90% quantile"
        return low, high, f"Lines are medians over {len(episodes)} episodes; band: {edges}."
    low, high = bootstrap_band(episodes[0])
    return low, high, f"Band: {LEVEL:.0%} of paths resampled from the agent's returns."


def quantile_band(rows: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Lower edge, median and upper edge of series of several seeds."""
    edges = (0.0, 1.0) if len(rows) < FEW_SEEDS else (0.1, 0.9)
    low, middle, high = np.quantile(aligned(rows), [edges[0], 0.5, edges[1]], axis=0)
    return low, middle, high


def bootstrap_band(episode: Episode) -> tuple[Floats, Floats]:
    """Quantiles of cumulative returns of paths drawn by the stationary block bootstrap.

    Quantiles are computed at some hundred steps and interpolated between them.
    """
    growth = np.log(np.maximum(1.0 + episode.returns, 1e-12))
    steps, rng = len(growth), np.random.default_rng(0)
    jump = 1.0 / max(block_length([growth]), 1.0)
    at = np.unique(np.linspace(0, steps, min(steps + 1, BAND_POINTS)).astype(np.int64))
    paths = np.empty((PATHS, len(at)))
    for path in paths:
        starts = rng.random(steps) < jump
        starts[0] = True
        first = np.flatnonzero(starts)
        offsets = np.arange(steps) - np.repeat(first, np.diff(np.append(first, steps)))
        origin = np.repeat(rng.integers(0, steps, len(first)), np.diff(np.append(first, steps)))
        total = np.append(0.0, np.cumsum(growth[(origin + offsets) % steps]))
        path[:] = total[at]
    edges = np.quantile(paths, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    low, high = (np.interp(np.arange(steps + 1), at, np.expm1(edge)) for edge in edges)
    return low, high


def notebook_html(evaluation: Evaluation) -> str:
    """Sentence, sketch of equity and table for notebooks."""
    header, *rows = table_rows(evaluation)
    head = element("tr", *(element("th", text, style=CELL_STYLE) for text in header))
    body = [
        element(
            "tr",
            *(element("td", text, style=CELL_STYLE) for text in row),
            style="font-weight:600" if index == 0 else None,
        )
        for index, row in enumerate(rows)
    ]
    flags = [element("li", f"{flag.level}: {flag.message}") for flag in evaluation.flags]
    return element(
        "div",
        element(
            "p",
            element("strong", f"{evaluation.name} on {evaluation.env}. "),
            summary_sentence(evaluation),
        ),
        _sketch(evaluation),
        element("table", element("thead", head), element("tbody", *body)),
        element("ul", *flags) if flags else None,
    )


def _sketch(evaluation: Evaluation) -> Markup | None:
    """Equity of the agent and its best baseline, as a small SVG; None without accounts."""
    context, best = ReportContext(evaluation), best_baseline(evaluation)
    names = [evaluation.agent.name if best is None else next(iter(evaluation.policies))]
    names += [] if best is None else [best.baseline]
    episodes = {name: evaluation.policies[name].episodes for name in names}
    together = [episode for policy_episodes in episodes.values() for episode in policy_episodes]
    if not has_equity(together):
        return None
    relative = is_relative(together)
    medians = {
        name: quantile_band([wealth(episode, relative) for episode in policy_episodes])[1]
        for name, policy_episodes in episodes.items()
    }
    low = min(float(np.nanmin(series)) for series in medians.values())
    high = max(float(np.nanmax(series)) for series in medians.values())
    width, height = SKETCH_SIZE
    lines = [
        element(
            "polyline",
            element("title", context.labels[name]),
            points=_points(series, low, high),
            fill="none",
            stroke=colour,
            stroke_width=1.5,
        )
        for (name, series), colour in zip(medians.items(), SKETCH_COLOURS, strict=False)
    ]
    label = f"Equity of {' and '.join(context.labels[name] for name in names)}"
    legend = [
        element("span", f"— {context.labels[name]} ", style=f"color:{colour}")
        for name, colour in zip(medians, SKETCH_COLOURS, strict=False)
    ]
    picture = element(
        "svg",
        *reversed(lines),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        style="max-width:100%;height:auto",
    )
    return element("div", picture, element("div", "Median equity: ", *legend))


def _points(series: Floats, low: float, high: float) -> str:
    width, height = SKETCH_SIZE
    rows = downsample(series, SKETCH_POINTS)
    x = rows / max(len(series) - 1, 1) * (width - 4) + 2
    y = height - 4 - (series[rows] - low) / max(high - low, 1e-12) * (height - 8)
    known = np.isfinite(y)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[known], y[known], strict=True))
