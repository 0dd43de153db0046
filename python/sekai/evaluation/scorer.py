"""Scorer: metrics with confidence intervals, paired comparisons, cost and delay sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation import metrics
from sekai.evaluation.evaluation import (
    BaselineComparison,
    Episode,
    Interval,
    PolicyOutcome,
    Sensitivity,
)
from sekai.evaluation.metrics import metrics_of
from sekai.evaluation.policy import Policy
from sekai.evaluation.progress import EvaluationProgress
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.statistics import (
    bootstrap_interval,
    holm,
    paired,
    paired_bootstrap,
    seed_interval,
)
from sekai.evaluation.tasks import Task

__all__ = [
    "COST_MULTIPLES",
    "MIN_RETURNS",
    "MIN_SEEDS",
    "RETURN_METRICS",
    "Scorer",
    "break_even",
    "compact",
    "count_dates",
    "is_overlapping",
    "needs_bootstrap",
    "padded_to",
    "returns_by_date",
    "sample_returns",
    "sensitivity_of",
    "sensitivity_runs",
]

Floats = NDArray[np.float64]
Statistic = Callable[[Floats, float], float]
Lead = Callable[[float], float]

MIN_SEEDS = 8
"""Number of seeds from which intervals are Student's t over seeds."""

MIN_RETURNS = 100
"""Number of returns needed for the bootstrap."""

MIN_DISTINCT = 0.75
"""Share of distinct dates below which episodes count as one history."""

RESAMPLES = 500
RESAMPLES_PER_BASELINE = 80
RESAMPLES_OTHER = 200
"""Resamples for metrics other than the headline."""

COST_MULTIPLES = (0.0, 0.5, 1.0, 2.0, 4.0)
DELAYS = (0, 1, 2)
REFINEMENTS = 2
"""Secant steps towards a break-even cost."""

RETURN_METRICS: dict[str, Statistic] = {
    "total_return": lambda returns, periods: metrics.total_return(returns),
    "annual_return": metrics.annual_return,
    "volatility": metrics.volatility,
    "sharpe": metrics.sharpe,
    "sortino": metrics.sortino,
    "calmar": metrics.calmar,
    "omega": lambda returns, periods: metrics.omega(returns),
    "max_drawdown": lambda returns, periods: metrics.max_drawdown(returns),
    "value_at_risk": lambda returns, periods: metrics.value_at_risk(returns),
    "conditional_value_at_risk": lambda returns, periods: metrics.conditional_value_at_risk(
        returns
    ),
    "hit_rate": lambda returns, periods: metrics.hit_rate(returns),
}
"""Metrics of returns alone, which can be bootstrapped."""

NATURAL_BOUNDS = {
    "hit_rate": (0.0, 1.0),
    "fulfilled": (0.0, 1.0),
    "participation": (0.0, math.inf),
    "volatility": (0.0, math.inf),
    "tracking_error": (0.0, math.inf),
    "turnover": (0.0, math.inf),
    "exposure": (0.0, math.inf),
    "max_drawdown": (-math.inf, 0.0),
}
"""Values that metrics can take: bounds of Student's t may lie beyond, which says nothing."""


class Scorer:
    """Computes metrics, confidence intervals and comparisons from recorded episodes.

    Args:
        task: task that was run.
        periods: annualization factor.
        level: confidence level.
        bootstraps: use the bootstrap over returns instead of Student's t over seeds.
    """

    def __init__(self, task: Task, periods: float, level: float, bootstraps: bool) -> None:
        self.task, self.periods = task, periods
        self.level, self.bootstraps = level, bootstraps

    def outcome(self, name: str, episodes: list[Episode]) -> PolicyOutcome:
        """All metrics of a policy."""
        by_seed = self.by_seed(episodes)
        intervals = {
            metric: self._interval(metric, values, episodes) for metric, values in by_seed.items()
        }
        for member in episodes[0].members:
            own = [replace(episode, equity=episode.members[member]) for episode in episodes]
            for metric in dict.fromkeys((self.task.headline, "total_return")):
                values = self.by_seed(own)[metric]
                by_seed[f"{metric} of {member}"] = values
                intervals[f"{metric} of {member}"] = self._interval(metric, values, own)
        return PolicyOutcome(name=name, metrics=intervals, by_seed=by_seed, episodes=episodes)

    def by_seed(self, episodes: Sequence[Episode]) -> dict[str, list[float]]:
        """Metrics of each episode."""
        tables = [metrics_of(episode, self.periods, episode.benchmark) for episode in episodes]
        shared = [name for name in tables[0] if all(name in table for table in tables)]
        return {
            name: self.task.per_episode(name, [table[name] for table in tables], episodes)
            for name in shared
        }

    def headline(self, episodes: Sequence[Episode]) -> float:
        """Headline metric over all episodes."""
        name = self.task.headline
        if self.bootstraps and name in RETURN_METRICS:
            return self._of_returns(name, np.concatenate(sample_returns(episodes)))
        return float(np.mean(self.by_seed(episodes)[name]))

    def comparisons(
        self, agent: PolicyOutcome, baselines: Sequence[PolicyOutcome]
    ) -> list[BaselineComparison]:
        """Paired comparisons with all baselines, with Holm-adjusted p-values."""
        # The smallest bootstrap p-value is about 2 / resamples: more baselines need more of them.
        resamples = max(RESAMPLES, RESAMPLES_PER_BASELINE * len(baselines))
        compared = [self._comparison(agent, baseline, resamples) for baseline in baselines]
        p_values = holm([comparison.p_value for comparison in compared])
        return [
            replace(comparison, p_value=p_value)
            for comparison, p_value in zip(compared, p_values, strict=True)
        ]

    def _comparison(
        self, agent: PolicyOutcome, baseline: PolicyOutcome, resamples: int
    ) -> BaselineComparison:
        name = self.task.headline
        values = agent.by_seed[name], baseline.by_seed[name]
        difference, p_value, wins = paired(*values, self.task.higher_is_better, self.level)
        if self.bootstraps and name in RETURN_METRICS:
            difference, p_value, _ = paired_bootstrap(
                sample_returns(padded_to(agent.episodes, baseline.episodes)),
                sample_returns(padded_to(baseline.episodes, agent.episodes)),
                partial(self._of_returns, name),
                self.task.higher_is_better,
                level=self.level,
                resamples=resamples,
            )
        return BaselineComparison(
            baseline=baseline.name, metric=name, difference=difference, p_value=p_value, wins=wins
        )

    def _interval(self, name: str, values: list[float], episodes: list[Episode]) -> Interval:
        if not self.bootstraps or name not in RETURN_METRICS:
            return within_bounds(name, seed_interval(values, self.level))
        is_headline = name == self.task.headline
        interval = bootstrap_interval(
            sample_returns(episodes),
            partial(self._of_returns, name),
            level=self.level,
            resamples=RESAMPLES if is_headline else RESAMPLES_OTHER,
            method="studentised" if is_headline else "percentile",
        )
        return within_bounds(name, interval)

    def _of_returns(self, name: str, returns: Floats) -> float:
        return float(RETURN_METRICS[name](returns, self.periods))


def within_bounds(metric: str, interval: Interval) -> Interval:
    """Interval cut at the values that a metric can take; its coverage stays the same."""
    least, most = NATURAL_BOUNDS.get(metric, (-math.inf, math.inf))
    if not (interval.low < least or interval.high > most):
        return interval
    return replace(interval, low=max(interval.low, least), high=min(interval.high, most))


def needs_bootstrap(episodes: Sequence[Episode]) -> bool:
    """Return True if episodes are few and long, or overlap, so that seeds are no sample."""
    if not all(len(episode.equity) > 1 and episode.times is not None for episode in episodes):
        return False
    is_short = sum(map(len, sample_returns(episodes))) < MIN_RETURNS
    return not is_short and (len(episodes) < MIN_SEEDS or is_overlapping(episodes))


def compact(outcome: PolicyOutcome) -> PolicyOutcome:
    """Drop actions, weights, prices, fills and benchmark of all episodes but the first."""
    first, *others = outcome.episodes
    empty = np.zeros((0, 0))
    slim = [
        replace(episode, actions=empty, weights=None, prices=None, fills=None, benchmark=None)
        for episode in others
    ]
    return replace(outcome, episodes=[first, *slim])


def count_dates(episodes: Sequence[Episode]) -> tuple[int, int]:
    """Number of dated rows of all episodes, and of distinct dates among them."""
    times = [episode.times for episode in episodes if episode.times is not None]
    if not times:
        return 0, 0
    return sum(map(len, times)), len(np.unique(np.concatenate(times)))


def is_overlapping(episodes: Sequence[Episode]) -> bool:
    """Return True if episodes share so many dates that they are one history."""
    total, distinct = count_dates(episodes)
    return len(episodes) > 1 and distinct < MIN_DISTINCT * total


def returns_by_date(episodes: Sequence[Episode]) -> Floats:
    """Returns of all episodes by date, averaged over episodes on the same date.

    Returns without dates are concatenated episode by episode.
    """
    accounts = [episode for episode in episodes if len(episode.equity) > 1]
    if not accounts:
        return np.zeros(0)
    returns = np.concatenate([episode.returns for episode in accounts])
    times = [episode.times[1:] for episode in accounts if episode.times is not None]
    if len(times) < len(accounts):
        return returns
    _, indices = np.unique(np.concatenate(times), return_inverse=True)
    means: Floats = np.bincount(indices, returns) / np.bincount(indices)
    return means


def padded_to(episodes: Sequence[Episode], others: Sequence[Episode]) -> list[Episode]:
    """Extend episodes with constant equity to the length of those of another policy."""
    return [_padded(own, other) for own, other in zip(episodes, others, strict=True)]


def _padded(episode: Episode, other: Episode) -> Episode:
    missing = len(other.equity) - len(episode.equity)
    if missing <= 0 or not len(episode.equity):
        return episode
    equity = np.append(episode.equity, np.full(missing, episode.equity[-1]))
    return replace(episode, equity=equity, times=other.times)


def sample_returns(episodes: Sequence[Episode]) -> list[Floats]:
    """Returns of each episode; by date, as one series, if episodes overlap."""
    if is_overlapping(episodes):
        return [returns_by_date(episodes)]
    return [episode.returns for episode in episodes]


def sensitivity_runs(task: Task) -> int:
    """Number of runs of each policy at other costs and delays, without break-even refinements."""
    return len(DELAYS) - 1 + (len(COST_MULTIPLES) - 1) * (task.with_costs(2.0) is not None)


def sensitivity_of(
    policies: Mapping[str, Policy],
    headlines: Mapping[str, float],
    task: Task,
    scorer: Scorer,
    seeds: Sequence[int],
    progress: EvaluationProgress | None = None,
) -> Sensitivity:
    """Headline metric of all policies at other costs and delays.

    Args:
        policies: policies by name, the agent first.
        headlines: headline metric of each at actual costs without delay.
        task: task to run.
        scorer: computes the headline metric.
        seeds: seeds of the episodes.
        progress: counts runs.
    """
    known = {(name, 1.0, 0): value for name, value in headlines.items()}

    def headline(name: str, multiple: float = 1.0, delay: int = 0) -> float:
        key = (name, multiple, delay)
        if key not in known:
            source = task.prepared(task.source) if multiple == 1.0 else task.with_costs(multiple)
            assert source is not None, "costs are scaled only where with_costs supports it"
            episodes = run_episodes(
                policies[name], source, task, seeds, delay=delay, progress=progress
            )
            known[key] = scorer.headline(episodes)
        return known[key]

    multiples = list(COST_MULTIPLES) if task.with_costs(2.0) is not None else []
    agent, *baselines = policies
    sign = 1.0 if task.higher_is_better else -1.0

    def lead(baseline: str, multiple: float) -> float:
        return sign * (headline(agent, multiple) - headline(baseline, multiple))

    by_cost = {name: [headline(name, multiple) for multiple in multiples] for name in policies}
    by_delay = {name: [headline(name, delay=delay) for delay in DELAYS] for name in policies}
    return Sensitivity(
        metric=task.headline,
        cost_multiples=multiples,
        by_cost=by_cost if multiples else {},
        delays=list(DELAYS),
        by_delay=by_delay,
        break_even={name: break_even(partial(lead, name), multiples) for name in baselines}
        if multiples
        else {},
    )


def break_even(lead: Lead, multiples: Sequence[float]) -> float:
    """Break-even cost multiple, at which the agent's lead is 0.

    Args:
        lead: lead of the agent at a cost multiple.
        multiples: multiples of the grid, ascending.

    Returns:
        Infinity if the agent leads at the last multiple, 0 if it never leads, NaN if undefined.
    """
    leads = [lead(multiple) for multiple in multiples]
    if any(math.isnan(value) for value in leads):
        return math.nan
    if leads[-1] > 0:
        return math.inf
    ahead = [index for index, value in enumerate(leads) if value > 0]
    if not ahead:
        return 0.0
    low, high = ((multiples[index], leads[index]) for index in (ahead[-1], ahead[-1] + 1))
    for _ in range(REFINEMENTS):
        middle = _zero_crossing(low, high)
        value = lead(middle)
        if value == 0:
            return middle
        low, high = ((middle, value), high) if value > 0 else (low, (middle, value))
    return _zero_crossing(low, high)


def _zero_crossing(low: tuple[float, float], high: tuple[float, float]) -> float:
    return low[0] + (high[0] - low[0]) * low[1] / (low[1] - high[1])
