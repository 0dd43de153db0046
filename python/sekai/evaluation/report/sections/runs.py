"""Several runs beside each other, and whether they may be compared at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sekai.evaluation.evaluation import Evaluation
from sekai.evaluation.report.chart import Chart
from sekai.evaluation.report.labels import label_of
from sekai.evaluation.report.markup import Markup, element
from sekai.evaluation.report.numbers import UNDEFINED, shown
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.sections.growth import growth_section
from sekai.evaluation.report.sections.honesty import flags_block
from sekai.evaluation.report.sections.making import making_block
from sekai.evaluation.report.sections.overview import figure
from sekai.evaluation.report.sections.seeds import metrics_chart
from sekai.evaluation.report.tables import Cell, card, named, table
from sekai.evaluation.report.verdict import verdict_of

__all__ = ["differences", "runs_sections"]

Named = dict[str, Evaluation]

FAIR: dict[str, Callable[[Evaluation], object]] = {
    "environment": lambda one: one.env,
    "data": lambda one: one.provenance.data_digest,
    "seeds": lambda one: tuple(one.seeds),
    "headline metric": lambda one: one.headline,
    "steps of a year": lambda one: repr(one.periods_per_year),
}
"""What must be the same for numbers of two runs to be compared."""


def runs_sections(evaluations: list[Evaluation]) -> list[Section]:
    """The sections of a comparison."""
    runs = _named(evaluations)
    subject = _subject(runs)
    growth = growth_section(subject)
    seeds = metrics_chart(subject)
    found = [
        Section(name="overview", title="Overview", blocks=[_fairness(evaluations),
                                                           _table(runs, subject)]),
        growth,
        Section(name="seeds", title="Seeds", blocks=[seeds]) if seeds else None,
        Section(name="honesty", title="Honesty", blocks=[_luck(runs), *_flags(runs)]),
        Section(name="making", title="How it was made",
                blocks=[making_block(one, name) for name, one in runs.items()]),
    ]  # fmt: skip
    return [one for one in found if one is not None]


def differences(evaluations: list[Evaluation]) -> list[str]:
    """What the runs were not judged alike by."""
    found = [name for name, told in FAIR.items() if len({told(one) for one in evaluations}) > 1]
    settings = {name for one in evaluations for name in one.provenance.settings}
    unlike = sorted(
        name
        for name in settings
        if len({one.provenance.settings.get(name) for one in evaluations}) > 1
    )
    return found + [f"setting {name}" for name in unlike]


def _named(evaluations: list[Evaluation]) -> Named:
    """Runs by name; one of a name that is taken gets a number."""
    found: Named = {}
    for one in evaluations:
        name, count = one.name, 2
        while name in found:
            name, count = f"{one.name} ({count})", count + 1
        found[name] = one
    return found


def _subject(runs: Named) -> Subject:
    """The agents of all runs, as if they were policies of one evaluation."""
    first = next(iter(runs.values()))
    agents = {name: dataclasses.replace(one.agent, name=name) for name, one in runs.items()}
    paired = len({tuple(one.seeds) for one in runs.values()}) == 1
    together = dataclasses.replace(first, policies=agents, comparisons=[], sensitivity=None)
    return Subject(together, paired=paired, labels={name: name for name in agents})


def _fairness(evaluations: list[Evaluation]) -> Markup:
    unlike = differences(evaluations)
    if not unlike:
        phrase, look = "Judged alike", "good"
        text = "All runs have the same environment, data, seeds, headline metric and settings."
    else:
        phrase, look = "Not judged alike", "bad"
        text = f"Numbers of these runs are not comparable: they differ by {', '.join(unlike)}."
    return element(
        "section",
        element("p", "Comparison", class_="eyebrow"),
        element("h2", phrase),
        element("p", text),
        class_=f"card verdict {look}",
    )


def _table(runs: Named, subject: Subject) -> Markup:
    headlines = [one.headline for one in runs.values()]
    others = [name for one in runs.values() for name in one.agent.metrics]
    metrics = list(dict.fromkeys(headlines + others))
    rows = []
    for name, one in runs.items():
        verdict = verdict_of(one)
        rows.append(
            [Cell(named(name, subject.styles[name])),
             Cell(element("span", verdict.phrase, class_=f"badge {verdict.look}"))]
            + [figure(one.agent.metrics.get(metric), label_of(metric).kind) for metric in metrics]
        )  # fmt: skip
    heads: list[object] = [
        "Run",
        "Beside its baselines",
        *(label_of(metric).text for metric in metrics),
    ]
    note = "Of each run's agent, with intervals. A dash is a number that is not defined."
    return card("Runs and metrics", table(heads, rows, "Metrics of all runs"), note)


def _luck(runs: Named) -> Markup:
    rows = []
    for name, one in runs.items():
        errors = float(sum(flag.level == "error" for flag in one.flags))
        cells = [Cell(name), Cell(f"{errors:.0f}", errors)]
        cells.append(Cell(str(len(one.flags) - int(errors)), len(one.flags) - errors))
        if one.honesty is None:
            cells += [Cell(UNDEFINED)] * 4
        else:
            luck = one.honesty
            cells += [
                Cell(f"{luck.trials:,}", luck.trials),
                Cell(shown(luck.probabilistic, "chance"), luck.probabilistic),
                Cell(shown(luck.deflated, "chance"), luck.deflated),
                Cell(shown(luck.least_length, "count"), luck.least_length),
            ]
        rows.append(cells)
    heads = ["Run", "Errors", "Warnings", "Trials", "Above 0", "Above luck", "Returns needed"]
    note = (
        "Above 0 and above luck: the chances that the true Sharpe ratio is above 0, and above what "
        "the best of so many trials would show without skill."
    )
    return card("Luck and flags", table(heads, rows, "Luck and flags of all runs"), note)


def _flags(runs: Named) -> list[Markup | Chart]:
    return [flags_block(one.flags, f"Flags of {name}") for name, one in runs.items() if one.flags]
