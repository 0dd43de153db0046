"""Overview, validity and provenance sections: verdict, comparisons, metrics, deflated Sharpe."""

from __future__ import annotations

import math

from sekai.evaluation.evaluation import (
    DeflatedSharpe,
    Evaluation,
    Flag,
    Interval,
)
from sekai.evaluation.metrics import HIGHER_IS_BETTER
from sekai.evaluation.report.chart import Chart
from sekai.evaluation.report.elements import (
    Cell,
    Markup,
    ReportContext,
    Section,
    bounds,
    card,
    element,
    format_number,
    format_signed,
    format_time,
    joined,
    label_of,
    magnitude,
    policy_label,
    policy_name,
    table,
)
from sekai.evaluation.report.performance import summary_chart
from sekai.evaluation.report.summary import (
    MIN_DEFLATED_SHARPE,
    deflated_sharpe_sentence,
    summary_numbers,
    summary_sentence,
    verdict_of,
)

__all__ = [
    "STANDING_LABELS",
    "flags_block",
    "interval_cell",
    "overview_section",
    "provenance_block",
    "provenance_section",
    "validity_section",
]

UNRANKED = frozenset({"exposure", "net_exposure", "beta", "turnover", "skewness", "kurtosis"})
"""Descriptive metrics, without a best value."""

STANDING_LABELS = {"ahead": "better", "behind": "worse", "inconclusive": "not significant"}


def overview_section(context: ReportContext) -> Section:
    """First screen (verdict, numbers, equity), comparisons with baselines, and all metrics."""
    chart = summary_chart(context)
    blocks: list[Markup | Chart] = [_summary_block(context.evaluation)]
    blocks += [] if chart is None else [chart]
    blocks.append(_verdict_block(context.evaluation))
    if context.evaluation.comparisons:
        blocks.append(_comparisons(context))
    blocks.append(_metrics(context))
    return Section(name="overview", title="Overview", blocks=[*blocks])


def _summary_block(evaluation: Evaluation) -> Markup:
    tiles = [
        _tile(number.name, number.value, number.note) for number in summary_numbers(evaluation)
    ]
    return element(
        "section",
        element("h2", summary_sentence(evaluation)),
        element("div", *tiles, class_="tiles four"),
        class_=f"card verdict {verdict_of(evaluation).look}",
    )


def _verdict_block(evaluation: Evaluation) -> Markup:
    verdict = verdict_of(evaluation)
    flags = [
        element(
            "li",
            element("strong", f"{policy_label(flag.name)}: "),
            flag.message,
            class_=f"flag {_look(flag)}",
        )
        for flag in _by_severity(evaluation.flags)
    ]
    return element(
        "section",
        element("h3", "Reasons"),
        element("ul", *(element("li", text) for text in verdict.sentences), class_="sentences"),
        element("ul", *flags, class_="flags", aria_label="Flags") if flags else None,
        class_="card",
    )


def interval_cell(interval: Interval | None, kind: str, look: str = "") -> Cell:
    """Cell with a value and its confidence bounds."""
    if interval is None:
        return Cell("", None, look)
    limits = bounds(interval, kind)
    text = joined(
        element("span", format_number(interval.value, kind, magnitude(interval)), class_="value"),
        element("span", limits, class_="bounds") if limits else None,
    )
    return Cell(text, interval.value, look)


def _comparisons(context: ReportContext) -> Markup:
    comparisons = context.evaluation.comparisons
    rows = []
    for comparison in comparisons:
        label, difference = label_of(comparison.metric), comparison.difference
        value = format_signed(difference.value, label.kind, magnitude(difference))
        size = joined(
            element("span", value, class_="value"),
            element("span", bounds(difference, label.kind), class_="bounds"),
        )
        standing = comparison.standing
        style = context.styles.get(comparison.baseline)
        rows.append(
            [
                Cell(policy_name(policy_label(comparison.baseline), style)),
                Cell(element("span", STANDING_LABELS[standing], class_=f"badge {standing}")),
                Cell(size, difference.value),
                Cell(format_number(comparison.wins, "share"), comparison.wins),
                Cell(format_number(comparison.p_value, "p_value"), comparison.p_value),
            ]
        )
    level = comparisons[0].difference.level
    share, threshold = format_number(level, "share"), format_number(1.0 - level, "p_value")
    heads = [
        "Baseline",
        "Agent is",
        f"Difference in {label_of(comparisons[0].metric).text}",
        "Win rate",
        "p-value (Holm-adjusted)",
    ]
    return card(
        "Comparison with baselines",
        table(heads, rows, "Comparison with baselines"),
        f"Paired differences on the same {_seeds(context)}, with the same cash, costs and fills. "
        f"Brackets are {share} confidence intervals of single comparisons; p-values are adjusted "
        f"for all baselines by Holm's method, and those of {threshold} or more are not "
        "significant. Win rate: share of episodes in which the agent is better.",
    )


def _metrics(context: ReportContext) -> Markup:
    headline = context.evaluation.headline
    known = [name for outcome in context.policies.values() for name in outcome.metrics]
    names = list(dict.fromkeys([headline, *known]))
    undefined = [name for name in names if not _is_defined(context, name)]
    names = [name for name in names if name not in undefined]
    rows = []
    for metric in names:
        best, label = _best(context, metric), label_of(metric)
        meaning = element("span", label.meaning, class_="meaning") if label.meaning else None
        head = joined(element("span", label.text, class_="value"), meaning)
        cells = [
            interval_cell(outcome.metrics.get(metric), label.kind, "best" if name == best else "")
            for name, outcome in context.policies.items()
        ]
        rows.append([Cell(head), *cells])
    heads: list[object] = ["Metric"]
    heads += [policy_name(context.labels[name], context.styles[name]) for name in context.policies]
    looks = ["agent" if name == headline else "" for name in names]
    missing = ", ".join(label_of(metric).text for metric in undefined)
    return card(
        "All metrics",
        table(heads, rows, "Metrics of all policies", looks, sortable=False),
        f"Over {_seeds(context)}, with {_levels(context)} confidence intervals. The best value of "
        "each row is underlined; a dash is an undefined value."
        + (f" Undefined for all policies: {missing}." if missing else ""),
    )


def _is_defined(context: ReportContext, metric: str) -> bool:
    outcomes = [outcome for outcome in context.policies.values() if metric in outcome.metrics]
    intervals = [outcome.metrics[metric] for outcome in outcomes]
    return metric == context.evaluation.headline or any(
        not math.isnan(number)
        for interval in intervals
        for number in (interval.value, interval.low, interval.high)
    )


def _best(context: ReportContext, metric: str) -> str | None:
    """Policy with the best value, if the metric has a direction; invalid results are none."""
    evaluation = context.evaluation
    higher = None if metric in UNRANKED else HIGHER_IS_BETTER.get(metric)
    if metric == evaluation.headline:
        higher = evaluation.higher_is_better
    values = {
        name: outcome.metrics[metric].value
        for name, outcome in context.policies.items()
        if metric in outcome.metrics and math.isfinite(outcome.metrics[metric].value)
        if evaluation.is_valid or name in evaluation.baselines
    }
    if higher is None or len(set(values.values())) < 2:
        return None
    return (max if higher else min)(values, key=lambda name: values[name])


def _seeds(context: ReportContext) -> str:
    count = len(context.evaluation.seeds)
    return f"{count} seeds" if count != 1 else "one episode"


def _levels(context: ReportContext) -> str:
    outcomes = context.policies.values()
    levels = {interval.level for outcome in outcomes for interval in outcome.metrics.values()}
    return " and ".join(format_number(level, "share") for level in sorted(levels)) or "no"


def validity_section(context: ReportContext) -> Section:
    """Warning flags and the deflated Sharpe ratio."""
    blocks: list[Markup] = [flags_block(context.evaluation.flags)]
    if context.evaluation.deflated_sharpe is not None:
        blocks.append(_deflated_sharpe_block(context.evaluation.deflated_sharpe))
    return Section(name="validity", title="Validity", blocks=[*blocks])


def flags_block(flags: list[Flag], title: str = "Warning flags") -> Markup:
    """Flags, errors first."""
    rows = [
        element(
            "li",
            element("strong", policy_label(flag.name)),
            " ",
            element("span", flag.level, class_=f"badge {_look(flag)}"),
            element("p", flag.message),
            class_=f"flag {_look(flag)}",
        )
        for flag in _by_severity(flags)
    ]
    return element(
        "section",
        element("h3", title),
        element("ul", *rows, class_="flags") if rows else element("p", "No flags.", class_="quiet"),
        element("p", "Errors invalidate the results; warnings need attention.", class_="note"),
        class_="card",
    )


def _by_severity(flags: list[Flag]) -> list[Flag]:
    return sorted(flags, key=lambda flag: flag.level != "error")


def _look(flag: Flag) -> str:
    return "error" if flag.level == "error" else "warning"


def _deflated_sharpe_block(deflated_sharpe: DeflatedSharpe) -> Markup:
    is_short = deflated_sharpe.observations < deflated_sharpe.minimum_track_record
    enough = "fewer than needed" if is_short else "enough"
    tiles = [
        _tile(
            "Trials on this data",
            f"{deflated_sharpe.trials:,}",
            "agents evaluated, including this one",
        ),
        _tile(
            "Sharpe ratio per step",
            format_number(deflated_sharpe.sharpe),
            f"of {deflated_sharpe.observations:,} returns",
        ),
        _tile(
            "Expected best without skill",
            format_number(deflated_sharpe.expected_best),
            "expected maximum Sharpe ratio of as many trials",
        ),
        _tile(
            "Probabilistic Sharpe ratio",
            format_number(deflated_sharpe.probabilistic, "probability"),
            "probability that the true ratio is above 0",
            deflated_sharpe.probabilistic,
        ),
        _tile(
            "Deflated Sharpe ratio",
            format_number(deflated_sharpe.deflated, "probability"),
            "probability that it is above the expected best without skill",
            deflated_sharpe.deflated,
        ),
        _tile(
            "Minimum track record",
            format_number(deflated_sharpe.minimum_track_record, "count"),
            f"returns needed to reject a ratio of 0 at 95%: there are {enough}",
        ),
    ]
    return element(
        "section",
        element("h3", "Deflated Sharpe ratio"),
        element("p", deflated_sharpe_sentence(deflated_sharpe)),
        element("div", *tiles, class_="tiles"),
        element(
            "p",
            "The deflated Sharpe ratio corrects for the number of trials, the length of the "
            "record, and the skewness and kurtosis of returns.",
            class_="note",
        ),
        class_="card",
    )


def _tile(name: str, value: str, meaning: str, probability: float | None = None) -> Markup:
    return element(
        "div",
        element("span", name, class_="tile-name"),
        element("span", value, class_="tile-value"),
        _bar(name, probability) if probability is not None and math.isfinite(probability) else None,
        element("span", meaning, class_="tile-note"),
        class_="tile",
    )


def _bar(name: str, probability: float) -> Markup:
    """Bar of a probability with a mark at the threshold."""
    share = min(max(probability, 0.0), 1.0)
    look = "enough" if share >= MIN_DEFLATED_SHARPE else "short"
    value = format_number(probability, "probability")
    return element(
        "span",
        element("span", class_=f"bar-fill {look}", style=f"width:{share:.1%}"),
        element("span", class_="bar-mark", style=f"left:{MIN_DEFLATED_SHARPE:.0%}"),
        class_="bar",
        role="img",
        aria_label=f"{name}: {value}, threshold {MIN_DEFLATED_SHARPE:.0%}",
    )


def provenance_section(context: ReportContext) -> Section:
    """Command, versions, data and settings."""
    blocks = [provenance_block(context.evaluation)]
    return Section(name="provenance", title="Provenance", blocks=[*blocks])


def provenance_block(evaluation: Evaluation, title: str = "Provenance") -> Markup:
    """Provenance of one evaluation."""
    provenance = evaluation.provenance
    order = "higher" if evaluation.higher_is_better else "lower"
    periods = evaluation.periods_per_year
    rows = {
        "Created": format_time(provenance.created),
        "Environment": f"{evaluation.env} ({evaluation.task.replace('_', ' ')})",
        "Agent": provenance.model or next(iter(evaluation.policies)),
        "Ranked by": f"{label_of(evaluation.headline).text}, {order} is better",
        "Seeds": ", ".join(map(str, evaluation.seeds)),
        "Steps per year": f"{format_number(periods)}, from the timestamps"
        if math.isfinite(periods)
        else "undefined, steps have no dates",
        "Data": provenance.data_digest or "simulated from the seeds",
    }
    command = element(
        "pre", element("code", provenance.command), tabindex="0", aria_label="Command"
    )
    return element(
        "section",
        element("h3", title),
        command if provenance.command else None,
        _list(rows),
        _titled_list("Versions", provenance.versions),
        _titled_list("Settings", provenance.settings),
        class_="card",
    )


def _list(rows: dict[str, str]) -> Markup:
    pairs = [joined(element("dt", name), element("dd", text)) for name, text in rows.items()]
    return element("dl", *pairs, class_="facts")


def _titled_list(title: str, rows: dict[str, str]) -> Markup | None:
    return element("div", element("h4", title), _list(rows)) if rows else None
