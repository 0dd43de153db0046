"""What trading cost, and what would be left if it cost more or took longer."""

from __future__ import annotations

import numpy as np

from sekai.evaluation.evaluation import PolicyOutcome, Sensitivity
from sekai.evaluation.report.chart import Chart, Panel, View, line, plain, stacked
from sekai.evaluation.report.labels import Label, label_of, policy_label
from sekai.evaluation.report.markup import Markup
from sekai.evaluation.report.numbers import shown
from sekai.evaluation.report.section import Section, Subject
from sekai.evaluation.report.series import Floats, is_relative
from sekai.evaluation.report.tables import Cell, card, named, table

__all__ = ["costs_section"]


def costs_section(subject: Subject) -> Section | None:
    """Costs by kind, gross and net, and how the headline metric bears more of them."""
    blocks: list[Markup | Chart] = []
    if any(paid.any() for episode in subject.all_episodes for paid in episode.costs.values()):
        blocks += [_kinds_chart(subject)]
        blocks += [_gross_and_net(subject)] if is_relative(subject.all_episodes) else []
    if subject.evaluation.sensitivity is not None:
        blocks += _sensitivity_blocks(subject, subject.evaluation.sensitivity)
    return Section(name="costs", title="Costs", blocks=blocks) if blocks else None


def _kinds_chart(subject: Subject) -> Chart:
    relative = is_relative(subject.all_episodes)
    paid = [one for episode in subject.all_episodes for one in episode.costs.items()]
    kinds = dict.fromkeys(kind for kind, amounts in paid if amounts.any())
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain(policy_label(kind)),
            "y": [plain(subject.labels[name]) for name in subject.played],
            "x": [_paid(outcome, kind, relative) for outcome in subject.played.values()],
            "marker": {"color": f"${place % 8}", "pattern": {"shape": PATTERNS[place % 6]}},
            "hovertemplate": "%{x:,.2f}" + (" bp" if relative else ""),
        }
        for place, kind in enumerate(kinds)
    ]
    unit = "Basis points of initial equity" if relative else "Money"
    layout = stacked([Panel(unit)], dates=True) | {"barmode": "relative", "hovermode": "closest"}
    layout["xaxis"] = {"tickformat": ",~r"}
    layout["yaxis"] |= {"autorange": "reversed", "tickformat": "", "nticks": 99}
    return Chart(
        title="Costs by kind",
        views={"": View(traces=traces, layout=layout)},
        note="Mean of an episode. Below nought is what was earned, such as interest on cash.",
        height=140 + 44 * len(subject.played),
    )


PATTERNS = ("", "/", ".", "x", "\\", "-")
"""On bars, so that kinds are told by more than colour."""


def _paid(outcome: PolicyOutcome, kind: str, relative: bool) -> float:
    paid = [
        float(episode.costs[kind].sum()) / (episode.equity[0] / 1e4 if relative else 1.0)
        if kind in episode.costs
        else 0.0
        for episode in outcome.episodes
    ]
    return float(np.mean(paid)) if paid else 0.0


def _gross_and_net(subject: Subject) -> Markup:
    rows = []
    for name, outcome in subject.played.items():
        starts = np.array([episode.equity[0] for episode in outcome.episodes])
        ends = np.array([episode.equity[-1] for episode in outcome.episodes])
        paid = np.array([episode.total_cost for episode in outcome.episodes])
        net, cost = float(np.mean(ends / starts - 1)), float(np.mean(paid / starts))
        share = cost / (net + cost) if net + cost > 0 else float("nan")
        figures = [(net + cost, "percent"), (cost, "basis_points"), (net, "percent")]
        rows.append(
            [Cell(named(subject.labels[name], subject.styles[name]))]
            + [Cell(shown(value, kind), value) for value, kind in figures]
            + [Cell("more than all" if share > 1 else shown(share, "percent"), share)]
        )
    heads = ["Policy", "Before costs", "Costs", "After costs", "Share of gains paid"]
    note = (
        "Mean growth of an episode. Costs are added back as they were paid, without what they "
        "would have earned."
    )
    return card("Before and after costs", table(heads, rows, "Growth before and after costs"), note)


def _sensitivity_blocks(subject: Subject, sensitivity: Sensitivity) -> list[Markup | Chart]:
    metric = label_of(sensitivity.metric)
    found: list[Markup | Chart] = []
    if len(sensitivity.cost_multiples) > 1:
        found.append(
            _curve(subject, "If trading cost more", sensitivity.by_cost,
                   np.array(sensitivity.cost_multiples, np.float64), "times the costs", metric)
        )  # fmt: skip
    if sensitivity.break_even:
        found.append(_break_even(subject, sensitivity))
    if len(sensitivity.delays) > 1:
        found.append(
            _curve(subject, "If orders came later", sensitivity.by_delay,
                   np.array(sensitivity.delays, np.float64), "steps of delay", metric)
        )  # fmt: skip
    return found


def _curve(
    subject: Subject,
    title: str,
    values: dict[str, list[float]],
    x: Floats,
    x_title: str,
    metric: Label,
) -> Chart:
    text, kind = plain(metric.heading), metric.kind
    traces = []
    for name in reversed(values):
        style = subject.styles.get(name)
        if style is not None:
            drawn = line(x, np.array(values[name]), subject.labels[name], style, kind=kind)
            marker = {"color": style.colour, "symbol": style.symbol, "size": 8}
            traces.append(drawn | {"mode": "lines+markers", "marker": marker})
    layout = stacked([Panel(text, kind)], x_title=x_title, agent_last=True)
    layout["xaxis"] |= {"tickvals": [float(one) for one in x]}
    return Chart(title=title, views={"": View(traces=traces, layout=layout)}, height=360)


def _break_even(subject: Subject, sensitivity: Sensitivity) -> Markup:
    rows = [
        [Cell(named(policy_label(name), subject.styles.get(name))), Cell(_multiple(value), value)]
        for name, value in sensitivity.break_even.items()
    ]
    note = "How many times as much trading may cost before the agent is no longer ahead."
    return card("Break-even costs", table(["Baseline", "Ahead until"], rows, note), note)


def _multiple(value: float) -> str:
    if value == 0:
        return "never ahead"
    if np.isinf(value):
        return "still ahead at all that were tried"
    return f"{shown(value)} times the costs" if np.isfinite(value) else shown(value)
