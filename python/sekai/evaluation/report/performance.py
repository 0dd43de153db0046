"""Performance section: equity and drawdown, monthly returns, rolling risk, accounts of agents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sekai.evaluation.evaluation import Episode
from sekai.evaluation.report.chart import (
    Chart,
    ChartView,
    Floats,
    Panel,
    Trace,
    aligned,
    band,
    drawdown,
    has_equity,
    is_relative,
    line,
    monthly_returns,
    rolling_beta,
    rolling_mean_and_deviation,
    stacked,
    style_of,
    wealth,
)
from sekai.evaluation.report.elements import (
    MAX_SEEDS,
    Markup,
    ReportContext,
    Section,
    element,
    format_number,
    joined,
    policy_label,
    x_values,
)

__all__ = ["band_note", "performance_section", "quantile_band", "window_for"]

Series = Callable[[Episode], Floats]

FEW_SEEDS = 10
"""Number of seeds below which bands show the range instead of quantiles."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
STRONG_RETURN = 0.08
"""Monthly return with the strongest colour."""

MIN_ROLLING_STEPS = 40


def performance_section(context: ReportContext) -> Section | None:
    """Equity, drawdown, monthly returns and rolling risk; rewards without accounts."""
    if not context.episodes:
        return None
    if not has_equity(context.all_episodes):
        if len(context.episodes[0].rewards) < 2:
            return None
        return Section(name="performance", title="Rewards", blocks=[_rewards_chart(context)])
    blocks = [
        _equity_chart(context),
        _members_chart(context),
        _months_block(context),
        _rolling_chart(context),
    ]
    return Section(
        name="performance",
        title="Performance",
        blocks=[block for block in blocks if block is not None],
    )


def quantile_band(rows: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Lower edge, median and upper edge of series of several seeds."""
    edges = (0.0, 1.0) if len(rows) < FEW_SEEDS else (0.1, 0.9)
    low, middle, high = np.quantile(aligned(rows), [edges[0], 0.5, edges[1]], axis=0)
    return low, middle, high


def band_note(seeds: int) -> str:
    """Explanation of the band for so many seeds."""
    if seeds < 2:
        return ""
    edges = "from the minimum to the maximum"
    if seeds >= FEW_SEEDS:
        edges = "from the 10% to the 90% quantile"
    return (
        f"Lines are medians over {seeds} episodes; the band of the agent reaches {edges}. "
        "Episodes that ended early keep their last value."
    )


def _equity_chart(context: ReportContext) -> Chart:
    relative = is_relative(context.all_episodes)
    kind = "percent" if relative else "money"
    panels = [
        Panel("Cumulative return" if relative else "Profit, in money", kind, 2.2),
        Panel("Drawdown", kind),
    ]
    series: list[Series] = [
        lambda episode: wealth(episode, relative),
        lambda episode: drawdown(episode, relative),
    ]
    return Chart(
        title="Equity and drawdown",
        views=_views(context, panels, series),
        choice="Episodes",
        note=band_note(len(context.episodes)),
        height=560,
    )


def _rewards_chart(context: ReportContext) -> Chart:
    series: list[Series] = [lambda episode: np.append(0.0, np.cumsum(episode.rewards))]
    return Chart(
        title="Cumulative reward",
        views=_views(context, [Panel("Cumulative reward")], series),
        choice="Episodes",
        note=band_note(len(context.episodes)),
    )


def _views(
    context: ReportContext, panels: list[Panel], series: list[Series]
) -> dict[str, ChartView]:
    """View of all seeds, if there are several, and of each seed."""
    lines = len(context.single_episodes) * len(context.recorded) * len(panels)
    max_points = context.max_points(lines)
    views: dict[str, ChartView] = {}
    if len(context.episodes) > 1 or not context.paired:
        views["All seeds"] = _all_seeds_view(context, panels, series)
    for index, episode in enumerate(context.single_episodes):
        dates = episode.times is not None
        traces = []
        for name, outcome in reversed(context.recorded.items()):
            own = outcome.episodes[index]
            traces += [
                line(
                    x_values(own, dates),
                    values(own),
                    context.labels[name],
                    context.styles[name],
                    panel=panel,
                    kind=panels[panel].kind,
                    max_points=max_points,
                )
                for panel, values in enumerate(series)
            ]
        layout = stacked(panels, dates=dates, agent_last=True)
        views[f"Seed {episode.seed}"] = ChartView(traces=traces, layout=layout)
    return views


def _all_seeds_view(context: ReportContext, panels: list[Panel], series: list[Series]) -> ChartView:
    dates = context.has_shared_dates()
    bands, lines = [], []
    agent = next(iter(context.recorded))
    for name, outcome in reversed(context.recorded.items()):
        longest = max(outcome.episodes, key=lambda episode: len(episode.rewards))
        x, label, style = x_values(longest, dates), context.labels[name], context.styles[name]
        for panel, values in enumerate(series):
            low, middle, high = quantile_band([values(episode) for episode in outcome.episodes])
            # Bands of all policies would hide each other.
            bands += band(x, low, high, label, style, panel=panel) if name == agent else []
            lines.append(line(x, middle, label, style, panel=panel, kind=panels[panel].kind))
    return ChartView(traces=bands + lines, layout=stacked(panels, dates=dates, agent_last=True))


def _members_chart(context: ReportContext) -> Chart | None:
    """Accounts of the agents of a team; None for a single agent."""
    episodes = [episode for episode in context.single_episodes if episode.members]
    if not episodes:
        return None
    max_points = context.max_points(len(episodes) * len(episodes[0].members))
    return Chart(
        title="Accounts of the agents",
        views={f"Seed {episode.seed}": _member_view(episode, max_points) for episode in episodes},
        choice="Episode",
        note="The account of the team is the sum of these.",
    )


def _member_view(episode: Episode, max_points: int) -> ChartView:
    accounts = {name: replace(episode, equity=equity) for name, equity in episode.members.items()}
    relative = is_relative(list(accounts.values()))
    kind, dates = "percent" if relative else "money", episode.times is not None
    title = "Cumulative return of each agent" if relative else "Profit of each agent, in money"
    traces = [
        line(
            x_values(own, dates),
            wealth(own, relative),
            policy_label(name),
            style_of(index),
            kind=kind,
            max_points=max_points,
        )
        for index, (name, own) in enumerate(accounts.items())
    ]
    return ChartView(traces=traces, layout=stacked([Panel(title, kind)], dates=dates))


def _months_block(context: ReportContext) -> Markup | None:
    """Monthly returns of each episode of the agent, and of baselines on the first seed."""
    tables: dict[str, Markup] = {}
    for index, (name, outcome) in enumerate(context.policies.items()):
        for episode in outcome.episodes[: MAX_SEEDS if index == 0 else 1]:
            months = monthly_returns(episode) if is_relative([episode]) else {}
            if len(months) > 1:
                title = f"{context.labels[name]}, seed {episode.seed}"
                tables[title] = _months_table(months, episode)
    if not tables:
        return None
    options = [element("option", name, value=index) for index, name in enumerate(tables)]
    chooser = element(
        "label", "Episode ", element("select", *options, data_tables="months"), class_="choice"
    )
    bodies = [
        element(
            "div",
            content,
            class_="scroll",
            data_table=index,
            hidden=index > 0,
            tabindex="0",
            role="region",
            aria_label=f"Monthly returns: {name}",
        )
        for index, (name, content) in enumerate(tables.items())
    ]
    title = element("h3", "Monthly returns")
    note = "In percent, after costs. The first and the last month may be partial."
    return element(
        "section",
        element("div", title, chooser if len(tables) > 1 else None, class_="chart-head"),
        *bodies,
        element("p", note, class_="note"),
        class_="card months",
    )


def _months_table(months: dict[tuple[int, int], float], episode: Episode) -> Markup:
    head = element("tr", *(element("th", text, scope="col") for text in ("Year", *MONTHS, "All")))
    rows = []
    for year in sorted({year for year, _ in months}):
        own = [value for (of_year, _), value in months.items() if of_year == year]
        cells = [_month_cell(months.get((year, month))) for month in range(1, 13)]
        total = _month_cell(float(np.prod(1 + np.array(own)) - 1), "total")
        rows.append(element("tr", element("th", year, scope="row"), *cells, total))
    caption = element("caption", f"Monthly returns, seed {episode.seed}", class_="unseen")
    return element(
        "table", caption, element("thead", head), element("tbody", joined(*rows)), class_="heat"
    )


def _month_cell(value: float | None, kind: str = "") -> Markup:
    if value is None or not np.isfinite(value):
        return element("td", class_=kind or None)
    side = "gain" if value >= 0 else "loss"
    strength = round(100 * min(abs(value) / STRONG_RETURN, 1.0))
    text = format_number(value, "percent").rstrip("%")
    return element("td", text, class_=f"{side} {kind}".strip(), style=f"--strength:{strength}%")


def _rolling_chart(context: ReportContext) -> Chart | None:
    steps = min(len(episode.rewards) for episode in context.all_episodes)
    is_solvent = all(bool((episode.equity > 0).all()) for episode in context.all_episodes)
    if steps < MIN_ROLLING_STEPS or not is_relative(context.all_episodes) or not is_solvent:
        return None
    window = window_for(steps, context.evaluation.periods_per_year)
    has_benchmark = all(episode.benchmark is not None for episode in context.episodes)
    has_benchmark = has_benchmark and context.paired
    scale = "annualized" if math.isfinite(context.evaluation.periods_per_year) else "per step"
    name = policy_label(context.evaluation.benchmark or "benchmark")
    beta = f" Beta is against the benchmark of the table: {name}." if has_benchmark else ""
    medians = " With all seeds, lines are medians." if len(context.episodes) > 1 else ""
    return Chart(
        title="Rolling risk",
        views=_rolling_views(context, window, has_benchmark),
        choice="Episodes",
        note=f"Rolling windows of {window} returns, {scale}.{beta}{medians}",
        height=600,
    )


def window_for(steps: int, periods_per_year: float) -> int:
    """Rolling window: a quarter of a year if episodes are long enough, else a fifth of them."""
    quarter = periods_per_year / 4
    return max(int(quarter if 5 <= quarter <= steps / 4 else steps / 5), 5)


def _rolling_views(
    context: ReportContext, window: int, has_benchmark: bool
) -> dict[str, ChartView]:
    panels = [Panel("Volatility", "percent"), Panel("Sharpe ratio")]
    panels += [Panel("Beta")] if has_benchmark else []
    lines = len(context.single_episodes) * len(context.recorded) * len(panels)
    max_points = context.max_points(lines)
    rolled = {
        name: [
            _rolling_series(context, name, index, window, has_benchmark)
            for index in range(len(outcome.episodes))
        ]
        for name, outcome in context.recorded.items()
    }

    def view(series: dict[str, list[Floats]], episodes: list[Episode], dates: bool) -> ChartView:
        longest = max(episodes, key=lambda episode: len(episode.rewards))
        x = x_values(longest, dates)[window:]
        traces: list[Trace] = [
            line(
                x[: len(values)],
                values,
                context.labels[name],
                context.styles[name],
                panel=panel,
                kind=panels[panel].kind,
                max_points=max_points,
            )
            for name, own in reversed(series.items())
            for panel, values in enumerate(own)
        ]
        return ChartView(traces=traces, layout=stacked(panels, dates=dates, agent_last=True))

    views: dict[str, ChartView] = {}
    if len(context.episodes) > 1 or not context.paired:
        medians = {
            name: [np.median(aligned(list(own)), axis=0) for own in zip(*rows, strict=True)]
            for name, rows in rolled.items()
        }
        views["All seeds"] = view(medians, context.all_episodes, context.has_shared_dates())
    for index, episode in enumerate(context.single_episodes):
        series = {name: rows[index] for name, rows in rolled.items()}
        episodes = [outcome.episodes[index] for outcome in context.recorded.values()]
        views[f"Seed {episode.seed}"] = view(series, episodes, episode.times is not None)
    return views


def _rolling_series(
    context: ReportContext, name: str, index: int, window: int, has_benchmark: bool
) -> list[Floats]:
    """Rolling volatility, Sharpe ratio and beta."""
    returns = context.policies[name].episodes[index].returns
    periods = context.evaluation.periods_per_year
    scale = math.sqrt(periods if math.isfinite(periods) else 1.0)
    mean, deviation = rolling_mean_and_deviation(returns, window)
    ratio = np.divide(mean, deviation, out=np.full(len(mean), np.nan), where=deviation > 0)
    series = [deviation * scale, ratio * scale]
    other = context.episodes[index].benchmark if has_benchmark else None
    if other is not None:
        shorter = min(len(returns), len(other))
        series.append(rolling_beta(returns[:shorter], other[:shorter], window))
    return series
