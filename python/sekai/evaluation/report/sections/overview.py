"""The verdict in words, and the table of all policies and metrics."""

from __future__ import annotations

import math

from sekai.evaluation.evaluation import Evaluation, Interval
from sekai.evaluation.metrics import HIGHER_IS_BETTER
from sekai.evaluation.report.labels import label_of, policy_label
from sekai.evaluation.report.markup import Markup, element, joined
from sekai.evaluation.report.numbers import bounds, shown, signed, size_of
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.tables import Cell, card, named, table
from sekai.evaluation.report.verdict import verdict_of

__all__ = ["figure", "metric_head", "overview_section", "verdict_block"]

NEITHER = frozenset({"exposure", "net_exposure", "beta", "turnover", "skewness", "kurtosis"})
"""Metrics that say what an account is like, and of which none is the best."""

STANDINGS = {"ahead": "ahead", "behind": "behind", "open": "not told apart"}


def overview_section(subject: Subject) -> Section:
    """What a reader with one minute should see."""
    blocks: list[Markup] = [verdict_block(subject.evaluation)]
    if subject.evaluation.comparisons:
        blocks.append(_comparisons(subject))
    blocks.append(_metrics(subject))
    return Section(name="overview", title="Overview", blocks=[*blocks])


def verdict_block(evaluation: Evaluation) -> Markup:
    """The verdict, and what flags were raised."""
    verdict = verdict_of(evaluation)
    flags = [
        element("li", element("strong", f"{policy_label(flag.name)}: "), flag.message,
                class_=f"flag {'error' if flag.level == 'error' else 'warning'}")
        for flag in sorted(evaluation.flags, key=lambda flag: flag.level != "error")
    ]  # fmt: skip
    return element(
        "section",
        element("p", "Verdict", class_="eyebrow"),
        element("h2", verdict.phrase),
        element("ul", *(element("li", text) for text in verdict.sentences), class_="sentences"),
        element("ul", *flags, class_="flags", aria_label="Flags") if flags else None,
        class_=f"card verdict {verdict.look}",
    )


def figure(interval: Interval | None, kind: str, look: str = "") -> Cell:
    """A number with its bounds underneath."""
    if interval is None:
        return Cell("", None, look)
    spread = bounds(interval, kind)
    text = joined(
        element("span", shown(interval.value, kind, size_of(interval)), class_="value"),
        element("span", spread, class_="bounds") if spread else None,
    )
    return Cell(text, interval.value, look)


def _comparisons(subject: Subject) -> Markup:
    rows, looks = [], []
    for comparison in subject.evaluation.comparisons:
        label = label_of(comparison.metric)
        place = comparison.standing
        found, value = comparison.difference, comparison.difference.value
        spread = bounds(found, label.kind)
        size = joined(
            element("span", signed(value, label.kind, size_of(found)), class_="value"),
            element("span", spread, class_="bounds"),
        )
        name = policy_label(comparison.baseline)
        style = subject.styles.get(comparison.baseline)
        rows.append([
            Cell(named(name, style)),
            Cell(element("span", STANDINGS[place], class_=f"badge {place}")),
            Cell(size, value),
            Cell(shown(comparison.wins, "share"), comparison.wins),
            Cell(shown(comparison.p_value, "p_value"), comparison.p_value),
        ])  # fmt: skip
        looks.append(place)
    level = subject.evaluation.comparisons[0].difference.level
    heads = ["Baseline", "The agent is", f"By {label.text}", "Better in", "p-value (Holm)"]
    return card(
        "Beside its baselines",
        table(heads, rows, "The agent beside its baselines"),
        f"Paired: the same {_seeds(subject)} for all, from the same cash, costs and fills. "
        f"Brackets hold the truth in {shown(level, 'share')} of such cases, each alone. P-values "
        "are adjusted for all baselines by Holm's method: who is compared with many is ahead of "
        f"one by chance. Those of {shown(1.0 - level, 'p_value')} or more are not told apart. "
        "Better in: share of episodes.",
    )


def _metrics(subject: Subject) -> Markup:
    names = list(dict.fromkeys(
        [subject.evaluation.headline]
        + [name for outcome in subject.policies.values() for name in outcome.metrics]
    ))  # fmt: skip
    unknown = [name for name in names if not _is_defined(subject, name)]
    names = [name for name in names if name not in unknown]
    rows = []
    for metric in names:
        best, kind = _best(subject, metric), label_of(metric).kind
        figures = [
            figure(outcome.metrics.get(metric), kind, "best" if name == best else "")
            for name, outcome in subject.policies.items()
        ]
        rows.append([Cell(metric_head(metric)), *figures])
    heads: list[object] = ["Metric"]
    heads += [named(subject.labels[name], subject.styles[name]) for name in subject.policies]
    looks = ["agent" if name == subject.evaluation.headline else "" for name in names]
    return card(
        "All metrics",
        table(heads, rows, "Metrics of all policies", looks, sortable=False),
        f"Over {_seeds(subject)}, with {_levels(subject)} intervals. The best of each row is "
        f"underlined, and a dash is a number that is not defined.{_missing(unknown)}",
    )


def _is_defined(subject: Subject, metric: str) -> bool:
    found = [one.metrics[metric] for one in subject.policies.values() if metric in one.metrics]
    return metric == subject.evaluation.headline or any(
        not math.isnan(number) for one in found for number in (one.value, one.low, one.high)
    )


def _missing(metrics: list[str]) -> str:
    named_ones = ", ".join(label_of(metric).text for metric in metrics)
    return f" Not defined for any of them: {named_ones}." if metrics else ""


def metric_head(metric: str) -> Markup:
    """A metric's name, and what it means."""
    label = label_of(metric)
    meaning = element("span", label.meaning, class_="meaning") if label.meaning else None
    return joined(element("span", label.text, class_="value"), meaning)


def _best(subject: Subject, metric: str) -> str | None:
    """Whose number is best, where it is known which way is better."""
    higher = _is_higher_better(subject.evaluation, metric)
    found = {
        name: outcome.metrics[metric].value
        for name, outcome in subject.policies.items()
        if metric in outcome.metrics and math.isfinite(outcome.metrics[metric].value)
    }
    if higher is None or len(set(found.values())) < 2:
        return None
    return (max if higher else min)(found, key=lambda name: found[name])


def _is_higher_better(evaluation: Evaluation, metric: str) -> bool | None:
    if metric == evaluation.headline:
        return evaluation.higher_is_better
    return None if metric in NEITHER else HIGHER_IS_BETTER.get(metric)


def _seeds(subject: Subject) -> str:
    count = len(subject.evaluation.seeds)
    return f"{count} seeds" if count != 1 else "one episode"


def _levels(subject: Subject) -> str:
    levels = {
        one.level for outcome in subject.policies.values() for one in outcome.metrics.values()
    }
    return " and ".join(shown(level, "share") for level in sorted(levels)) or "no"
