"""Risk over time: volatility, Sharpe ratio and beta of the last so many returns."""

from __future__ import annotations

import math

import numpy as np

from sekai.evaluation.episode import Episode
from sekai.evaluation.report.chart import Chart, Panel, Trace, View, line, stacked
from sekai.evaluation.report.section import Subject, x_of
from sekai.evaluation.report.series import (
    Floats,
    aligned,
    is_relative,
    rolling_beta,
    rolling_mean_and_deviation,
)

__all__ = ["benchmark_of", "risk_chart", "window_for"]

BENCHMARKS = ("benchmark", "market", "buy_and_hold", "equal_weight")
"""Baselines that stand for the market, the best first."""

LEAST_STEPS = 40
"""Below this, rolling figures are noise."""


def risk_chart(subject: Subject) -> Chart | None:
    """Rolling figures of all policies, where accounts have returns."""
    steps = min(len(episode.rewards) for episode in subject.all_episodes)
    if steps < LEAST_STEPS or not _has_returns(subject):
        return None
    window = window_for(steps, subject.evaluation.periods_per_year)
    return Chart(
        title="Rolling risk",
        views=_views(subject, window),
        choice="Episodes",
        note=_note(subject, window),
        height=600,
    )


def window_for(steps: int, periods_per_year: float) -> int:
    """A quarter of a year where episodes are long enough for four of them, else a fifth."""
    quarter = periods_per_year / 4
    return max(int(quarter if 5 <= quarter <= steps / 4 else steps / 5), 5)


def benchmark_of(subject: Subject) -> str | None:
    """The baseline that stands for the market, where all have played the same seeds."""
    baselines = list(subject.played)[1:]
    return next((name for name in BENCHMARKS if subject.paired and name in baselines), None)


def _has_returns(subject: Subject) -> bool:
    return is_relative(subject.all_episodes) and all(
        bool((episode.equity > 0).all()) for episode in subject.all_episodes
    )


def _note(subject: Subject, window: int) -> str:
    benchmark = benchmark_of(subject)
    scale = "a year" if math.isfinite(subject.evaluation.periods_per_year) else "a step"
    beta = f" Beta is against {subject.labels[benchmark]}." if benchmark else ""
    medians = " With all seeds, lines are medians." if len(subject.episodes) > 1 else ""
    return f"Of the last {window} returns, as figures of {scale}.{beta}{medians}"


def _views(subject: Subject, window: int) -> dict[str, View]:
    benchmark = benchmark_of(subject)
    panels = [Panel("Volatility", "percent"), Panel("Sharpe ratio")]
    panels += [Panel("Beta")] if benchmark else []
    most = subject.most_points(len(subject.single) * len(subject.played) * len(panels))
    rolled = {
        name: [_rolled(subject, name, place, window) for place in range(len(outcome.episodes))]
        for name, outcome in subject.played.items()
    }
    views: dict[str, View] = {}
    if len(subject.episodes) > 1 or not subject.paired:
        middle = {name: _medians(rows) for name, rows in rolled.items()}
        x, dates = _from_window(subject.all_episodes, subject.has_shared_dates(), window)
        views["All seeds"] = _view(subject, panels, middle, x, dates, most)
    for place, episode in enumerate(subject.single):
        chosen = {name: rows[place] for name, rows in rolled.items()}
        played = [outcome.episodes[place] for outcome in subject.played.values()]
        x, dates = _from_window(played, episode.times is not None, window)
        views[f"Seed {episode.seed}"] = _view(subject, panels, chosen, x, dates, most)
    return views


def _from_window(episodes: list[Episode], dates: bool, window: int) -> tuple[Floats, bool]:
    """Where figures are: the first is known when the first window has passed."""
    longest = max(episodes, key=lambda episode: len(episode.rewards))
    return x_of(longest, dates)[window:], dates


def _rolled(subject: Subject, name: str, place: int, window: int) -> list[Floats]:
    """Volatility, Sharpe ratio and, of those that are not the benchmark, beta."""
    returns = subject.policies[name].episodes[place].returns
    scale = subject.evaluation.periods_per_year
    scale = scale if math.isfinite(scale) else 1.0
    mean, deviation = rolling_mean_and_deviation(returns, window)
    ratio = np.divide(mean, deviation, out=np.full(len(mean), np.nan), where=deviation > 0)
    found = [deviation * math.sqrt(scale), ratio * math.sqrt(scale)]
    benchmark = benchmark_of(subject)
    if benchmark is not None and benchmark != name:
        other = subject.policies[benchmark].episodes[place].returns
        shorter = min(len(returns), len(other))
        found.append(rolling_beta(returns[:shorter], other[:shorter], window))
    return found


def _medians(rows: list[list[Floats]]) -> list[Floats]:
    return [np.median(aligned(list(series)), axis=0) for series in zip(*rows, strict=True)]


def _view(
    subject: Subject,
    panels: list[Panel],
    chosen: dict[str, list[Floats]],
    x: Floats,
    dates: bool,
    most: int,
) -> View:
    traces: list[Trace] = [
        line(x[: len(values)], values, subject.labels[name], subject.styles[name], panel=panel,
             kind=panels[panel].kind, most=most)
        for name, series in reversed(chosen.items())
        for panel, values in enumerate(series)
    ]  # fmt: skip
    return View(traces=traces, layout=stacked(panels, dates=dates, agent_last=True))
