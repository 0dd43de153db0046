"""Holdings and costs sections: weights, exposure, fills, costs by kind and cost sensitivity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Episode, EpisodeFills, PolicyOutcome, Sensitivity
from sekai.evaluation.report.chart import (
    COLOURS,
    Chart,
    ChartView,
    Floats,
    Panel,
    Style,
    Trace,
    downsample,
    is_relative,
    line,
    stacked,
    style_of,
)
from sekai.evaluation.report.elements import (
    MAX_SEEDS,
    Cell,
    Label,
    Markup,
    ReportContext,
    Section,
    card,
    format_number,
    label_of,
    policy_label,
    policy_name,
    table,
    x_values,
)

__all__ = ["costs_section", "holdings_section", "largest_weights"]

MAX_ASSETS = 11
"""Assets shown by name; the others are summed."""

MAX_VIEWS = 24
MAX_FILLS = 400

CASH = "$cash"
PRICE = Style("$ink", "solid", "")
EXPOSURES = (Style("$0", "solid", ""), Style("$1", "dash", ""), Style("$2", "dot", ""))
PATTERNS = ("", "/", ".", "x", "\\", "-")
"""Patterns of bars, so that kinds differ by more than colour."""


def holdings_section(context: ReportContext) -> Section | None:
    """Weights, exposures and fills."""
    charts = [_weights_chart(context), _caps_block(context), _fills_chart(context)]
    blocks = [chart for chart in charts if chart is not None]
    return Section(name="holdings", title="Holdings", blocks=[*blocks]) if blocks else None


def _caps_block(context: ReportContext) -> Markup | None:
    """Exposures at decisions and after drift against the caps; None without caps."""
    rows = []
    for check in context.evaluation.caps:
        figures = (check.cap, check.at_decision, check.after_drift)
        counts = (check.rows_above_at_decision, check.rows_above_after_drift)
        rows.append(
            [Cell(policy_label(check.measure) + (f" of {check.agent}" if check.agent else ""))]
            + [Cell(format_number(value, "percent"), value) for value in figures]
            + [Cell(f"{count:,} of {check.rows:,}", count) for count in counts]
        )
    heads = [
        "Exposure of the agent",
        "Cap",
        "Largest at decisions",
        "Largest after drift",
        "Rows above the cap at decisions",
        "Rows above after drift",
    ]
    note = (
        "Caps hold for the ordered weights. Prices move until the fill and until the end of the "
        "step, and weights drift above a cap until the next decision."
    )
    title = "Caps at decisions and after drift"
    return card(title, table(heads, rows, title), note) if rows else None


def _weights_chart(context: ReportContext) -> Chart | None:
    episodes = {
        f"{context.labels[name]}, seed {episode.seed}": episode
        for index, (name, outcome) in enumerate(context.policies.items())
        for episode in outcome.episodes[: MAX_SEEDS if index == 0 else 1]
        if episode.weights is not None and len(episode.weights) > 1
    }
    if not episodes:
        return None
    lines = max(min(len(episode.assets), MAX_ASSETS) + 4 for episode in episodes.values())
    max_points = context.max_points(len(episodes) * lines)
    return Chart(
        title="Weights and exposures",
        views={name: _weights_view(episode, max_points) for name, episode in episodes.items()},
        choice="Episode",
        note="Weights over equity after each step; short positions and debt are below the line.",
        height=560,
    )


def _weights_view(episode: Episode, max_points: int) -> ChartView:
    assert episode.weights is not None
    dates = episode.times is not None
    x = x_values(episode, dates)[1 : len(episode.weights) + 1]
    panels = [Panel("Weights", "percent", 2.2), Panel("Exposures", "percent")]
    # Stacked areas need common rows: those where cash is largest and smallest.
    rows = downsample(episode.weights[:, -1], max_points)
    traces: list[Trace] = []
    for index, (name, weights) in enumerate(largest_weights(episode).items()):
        colour = CASH if name == "Cash" else style_of(index).colour
        traces += _areas(x[rows], weights[rows], name, colour, hatched=index >= COLOURS)
    held = episode.weights[:, :-1]
    exposures = {"Gross": np.abs(held).sum(axis=1), "Net": held.sum(axis=1)}
    exposures["Largest"] = np.abs(held).max(axis=1, initial=0.0)
    for style, (name, values) in zip(EXPOSURES, exposures.items(), strict=True):
        drawn = line(x, values, name, style, panel=1, kind="percent", max_points=max_points)
        traces.append(drawn | {"showlegend": True, "legend": "legend2"})
    return ChartView(traces=traces, layout=stacked(panels, dates=dates))


def largest_weights(episode: Episode) -> dict[str, Floats]:
    """Weights by name: the largest assets, the sum of all others, and cash."""
    assert episode.weights is not None
    held = episode.weights[:, :-1]
    names = episode.assets or tuple(f"Asset {index}" for index in range(held.shape[1]))
    order = np.argsort(-np.abs(held).mean(axis=0), kind="stable")
    weights = {names[index]: held[:, index] for index in np.sort(order[:MAX_ASSETS])}
    if len(order) > MAX_ASSETS:
        weights[f"{len(order) - MAX_ASSETS} others"] = held[:, order[MAX_ASSETS:]].sum(axis=1)
    return weights | {"Cash": episode.weights[:, -1]}


def _areas(x: Floats, weights: Floats, name: str, colour: str, *, hatched: bool) -> list[Trace]:
    """Stacked areas of long weights above the line and short weights below it."""
    area: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "line": {"width": 0.6, "color": colour},
        "fillcolor": f"{colour}/0.75",
        "yhoverformat": ".1%",
        "legendgroup": name,
    }
    if hatched and colour != CASH:
        area["fillpattern"] = {
            "shape": "/",
            "size": 7,
            "bgcolor": f"{colour}/0.75",
            "fgcolor": "$card/0.8",
        }
    long: Trace = {**area, "y": np.fmax(weights, 0).astype(np.float32), "stackgroup": "long"}
    if not (weights < -1e-9).any():
        return [long]
    short = {**area, "y": np.fmin(weights, 0).astype(np.float32), "stackgroup": "short"}
    return [long, short | {"showlegend": False}]


def _fills_chart(context: ReportContext) -> Chart | None:
    views: dict[str, ChartView] = {}
    for episode in context.episodes:
        for asset in _traded_assets(episode):
            if len(views) < MAX_VIEWS:
                views[f"{asset}, seed {episode.seed}"] = _fills_view(episode, asset)
    if not views:
        return None
    return Chart(
        title="Fills and prices",
        views=views,
        choice="Asset",
        note="Triangles pointing up are purchases, those pointing down are sales; at most the "
        f"{MAX_FILLS:,} largest are shown.",
    )


def _traded_assets(episode: Episode) -> list[str]:
    """Assets with fills, most traded first."""
    if episode.fills is None or not len(episode.fills):
        return []
    names, counts = np.unique(episode.fills.asset, return_counts=True)
    return [str(names[index]) for index in np.argsort(-counts, kind="stable")]


def _fills_view(episode: Episode, asset: str) -> ChartView:
    assert episode.fills is not None
    dates = episode.times is not None
    x = x_values(episode, dates)
    traces: list[Trace] = []
    if episode.prices is not None and asset in episode.assets:
        prices = episode.prices[:, episode.assets.index(asset)]
        traces.append(line(x[: len(prices)], prices, "Price", PRICE, kind="money", max_points=900))
    rows = _largest_fills(episode.fills, asset)
    # Fills of a step are in the account at its end.
    at = x[np.clip(episode.fills.step[rows] + 1, 0, len(x) - 1)]
    units, price = episode.fills.units[rows], episode.fills.price[rows]
    for name, side, colour, symbol in (
        ("Bought", units > 0, "$0", "triangle-up"),
        ("Sold", units < 0, "$1", "triangle-down"),
    ):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": at[side],
                "y": price[side].astype(np.float32),
                "customdata": np.abs(units[side]).astype(np.float32),
                "hovertemplate": "%{customdata:,.4~g} at %{y:,.4~f}",
                "marker": {
                    "color": colour,
                    "symbol": symbol,
                    "size": 11,
                    "line": {"width": 1, "color": "$card"},
                },
            }
        )
    return ChartView(traces=traces, layout=stacked([Panel("Price", "number")], dates=dates))


def _largest_fills(fills: EpisodeFills, asset: str) -> NDArray[np.int64]:
    rows = np.flatnonzero(fills.asset == asset)
    value = np.abs(fills.units[rows] * fills.price[rows])
    return np.sort(rows[np.argsort(-value, kind="stable")[:MAX_FILLS]])


def costs_section(context: ReportContext) -> Section | None:
    """Costs by kind, gross and net returns, cost and delay sensitivity."""
    blocks: list[Markup | Chart] = []
    if any(paid.any() for episode in context.all_episodes for paid in episode.costs.values()):
        blocks += [_costs_chart(context)]
        blocks += [_gross_and_net(context)] if is_relative(context.all_episodes) else []
    if context.evaluation.sensitivity is not None:
        blocks += _sensitivity_blocks(context, context.evaluation.sensitivity)
    return Section(name="costs", title="Costs", blocks=blocks) if blocks else None


def _costs_chart(context: ReportContext) -> Chart:
    relative = is_relative(context.all_episodes)
    items = [item for episode in context.all_episodes for item in episode.costs.items()]
    kinds = dict.fromkeys(kind for kind, amounts in items if amounts.any())
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": policy_label(kind),
            "y": [context.labels[name] for name in context.recorded],
            "x": [_mean_cost(outcome, kind, relative) for outcome in context.recorded.values()],
            "marker": {
                "color": f"${index % COLOURS}",
                "pattern": {"shape": PATTERNS[index % len(PATTERNS)]},
            },
            "hovertemplate": "%{x:,.2f}" + (" bp" if relative else ""),
        }
        for index, kind in enumerate(kinds)
    ]
    unit = "Basis points of initial equity" if relative else "Money"
    layout = stacked([Panel(unit)], dates=True) | {"barmode": "relative", "hovermode": "closest"}
    layout["xaxis"] = {"tickformat": ",~r"}
    layout["yaxis"] |= {"autorange": "reversed", "tickformat": "", "nticks": 99}
    return Chart(
        title="Costs by kind",
        views={"": ChartView(traces=traces, layout=layout)},
        note="Mean per episode. Negative values are income, such as interest on cash.",
        height=140 + 44 * len(context.recorded),
    )


def _mean_cost(outcome: PolicyOutcome, kind: str, relative: bool) -> float:
    costs = [
        float(episode.costs[kind].sum()) / (episode.equity[0] / 1e4 if relative else 1.0)
        if kind in episode.costs
        else 0.0
        for episode in outcome.episodes
    ]
    return float(np.mean(costs)) if costs else 0.0


def _gross_and_net(context: ReportContext) -> Markup:
    rows = []
    for name, outcome in context.recorded.items():
        starts = np.array([episode.equity[0] for episode in outcome.episodes])
        ends = np.array([episode.equity[-1] for episode in outcome.episodes])
        paid = np.array([episode.total_cost for episode in outcome.episodes])
        net, cost = float(np.mean(ends / starts - 1)), float(np.mean(paid / starts))
        share = cost / (net + cost) if net + cost > 0 else float("nan")
        figures = [(net + cost, "percent"), (cost, "basis_points"), (net, "percent")]
        rows.append(
            [Cell(policy_name(context.labels[name], context.styles[name]))]
            + [Cell(format_number(value, kind), value) for value, kind in figures]
            + [Cell("over 100%" if share > 1 else format_number(share, "percent"), share)]
        )
    heads = ["Policy", "Gross return", "Costs", "Net return", "Costs over gross return"]
    note = "Mean per episode. Gross return is net return plus costs, without compounding."
    return card("Gross and net return", table(heads, rows, "Gross and net return"), note)


def _sensitivity_blocks(context: ReportContext, sensitivity: Sensitivity) -> list[Markup | Chart]:
    metric = label_of(sensitivity.metric)
    blocks: list[Markup | Chart] = []
    for title, values, settings, x_title in (
        ("Cost sensitivity", sensitivity.by_cost, sensitivity.cost_multiples, "cost multiple"),
        ("Delay sensitivity", sensitivity.by_delay, sensitivity.delays, "steps of delay"),
    ):
        if len(settings) > 1:
            x = np.array(settings, np.float64)
            blocks.append(_sensitivity_chart(context, title, values, x, x_title, metric))
    if sensitivity.break_even:
        blocks.insert(min(len(blocks), 1), _break_even(context, sensitivity))
    return blocks


def _sensitivity_chart(
    context: ReportContext,
    title: str,
    values: dict[str, list[float]],
    x: Floats,
    x_title: str,
    metric: Label,
) -> Chart:
    traces = []
    for name in reversed(values):
        style = context.styles.get(name)
        if style is not None:
            y = np.array(values[name])
            drawn = line(x, y, context.labels[name], style, kind=metric.kind)
            marker = {"color": style.colour, "symbol": style.symbol, "size": 8}
            traces.append(drawn | {"mode": "lines+markers", "marker": marker})
    panel = Panel(metric.heading, metric.kind)
    layout = stacked([panel], x_title=x_title, agent_last=True)
    layout["xaxis"] |= {"tickvals": [float(value) for value in x]}
    return Chart(title=title, views={"": ChartView(traces=traces, layout=layout)}, height=360)


def _break_even(context: ReportContext, sensitivity: Sensitivity) -> Markup:
    rows = [
        [
            Cell(policy_name(policy_label(name), context.styles.get(name))),
            Cell(_multiple(value), value),
        ]
        for name, value in sensitivity.break_even.items()
    ]
    note = "Cost multiple at which the agent's lead over the baseline is 0."
    return card("Break-even cost", table(["Baseline", "Break-even cost"], rows, note), note)


def _multiple(value: float) -> str:
    if value == 0:
        return "never ahead"
    if np.isinf(value):
        return "above all tested multiples"
    return f"{format_number(value)} times the costs" if np.isfinite(value) else format_number(value)
