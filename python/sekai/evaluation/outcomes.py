"""What policies came to, with intervals: over seeds that are different, else by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation import metrics
from sekai.evaluation.episode import Episode
from sekai.evaluation.evaluation import Comparison, Interval, PolicyOutcome
from sekai.evaluation.metrics import metrics_of
from sekai.evaluation.shared_dates import held_on, is_one_history, returns_by_date
from sekai.evaluation.statistics import (
    bootstrap_interval,
    holm,
    paired,
    paired_bootstrap,
    seed_interval,
)
from sekai.evaluation.tasks.task import Task

__all__ = ["Measure", "lighter", "needs_bootstrap"]

Floats = NDArray[np.float64]
Statistic = Callable[[Floats, float], float]

MANY = 8
"""Seeds from which on intervals are over seeds."""

ENOUGH = 100
"""Returns without which the bootstrap has nothing to draw from."""

RESAMPLES = 500
RESAMPLES_EACH = 80
"""For each baseline, where there are many."""

FEWER_RESAMPLES = 200
"""For metrics that nobody is ranked by."""

OF_RETURNS: dict[str, Statistic] = {
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
"""Metrics that are of returns alone, and can be bootstrapped."""


def needs_bootstrap(episodes: Sequence[Episode]) -> bool:
    """Whether what varies is within episodes: they are few and long, or parts of one history."""
    if not all(len(one.equity) > 1 and one.times is not None for one in episodes):
        return False
    is_short = sum(map(len, _returns(episodes))) < ENOUGH
    return not is_short and (len(episodes) < MANY or is_one_history(episodes))


class Measure:
    """Turns episodes into numbers, in the same way for every policy."""

    def __init__(self, task: Task, periods: float, level: float, bootstraps: bool) -> None:
        self.task, self.periods = task, periods
        self.level, self.bootstraps = level, bootstraps

    def outcome(self, name: str, episodes: list[Episode]) -> PolicyOutcome:
        """All metrics of a policy."""
        by_seed = self.by_seed(episodes)
        intervals = {one: self._interval(one, by_seed[one], episodes) for one in by_seed}
        for member in episodes[0].members:
            own = [replace(one, equity=one.members[member]) for one in episodes]
            for metric in dict.fromkeys((self.task.headline, "total_return")):
                found = self.by_seed(own)[metric]
                by_seed[f"{metric} of {member}"] = found
                intervals[f"{metric} of {member}"] = self._interval(metric, found, own)
        return PolicyOutcome(name=name, metrics=intervals, by_seed=by_seed, episodes=episodes)

    def by_seed(self, episodes: Sequence[Episode]) -> dict[str, list[float]]:
        """All metrics, episode by episode."""
        found = [
            metrics_of(episode, self.periods, self.task.benchmark(episode)) for episode in episodes
        ]
        shared = [name for name in found[0] if all(name in one for one in found)]
        return {
            name: self.task.values(name, [one[name] for one in found], episodes) for name in shared
        }

    def headline(self, episodes: Sequence[Episode]) -> float:
        """The mean of the metric that policies are ranked by."""
        if self.bootstraps and self.task.headline in OF_RETURNS:
            return self._joined(self.task.headline, _returns(episodes))
        return float(np.mean(self.by_seed(episodes)[self.task.headline]))

    def comparisons(
        self, agent: PolicyOutcome, others: Sequence[PolicyOutcome]
    ) -> list[Comparison]:
        """How far the agent is ahead of others by the headline metric, all of them counted."""
        # A chance is no smaller than a few of all resamples: beside many, it takes more of them.
        resamples = max(RESAMPLES, RESAMPLES_EACH * len(others))
        found = [self._comparison(agent, other, resamples) for other in others]
        chances = holm([one.p_value for one in found])
        return [replace(one, p_value=chance) for one, chance in zip(found, chances, strict=True)]

    def _comparison(self, agent: PolicyOutcome, other: PolicyOutcome, resamples: int) -> Comparison:
        name = self.task.headline
        values = agent.by_seed[name], other.by_seed[name]
        difference, chance, wins = paired(*values, self.task.higher_is_better, self.level)
        if self.bootstraps and name in OF_RETURNS:
            mine = held_on(agent.episodes, other.episodes)
            theirs = held_on(other.episodes, agent.episodes)
            difference, chance, wins = paired_bootstrap(
                _returns(mine), _returns(theirs),
                lambda joined: self._of(name, joined), self.task.higher_is_better,
                level=self.level, resamples=resamples,
            )  # fmt: skip
        return Comparison(
            baseline=other.name, metric=name, difference=difference, p_value=chance, wins=wins
        )

    def _interval(self, name: str, values: list[float], episodes: list[Episode]) -> Interval:
        if not self.bootstraps or name not in OF_RETURNS:
            return seed_interval(values, self.level)
        is_headline = name == self.task.headline
        return bootstrap_interval(
            _returns(episodes),
            lambda joined: self._of(name, joined),
            level=self.level,
            resamples=RESAMPLES if is_headline else FEWER_RESAMPLES,
            method="studentised" if is_headline else "percentile",
        )

    def _joined(self, name: str, tables: Sequence[Floats]) -> float:
        return self._of(name, np.concatenate(tables))

    def _of(self, name: str, returns: Floats) -> float:
        return float(OF_RETURNS[name](returns, self.periods))


def _returns(episodes: Sequence[Episode]) -> list[Floats]:
    """Returns of what counts as an episode: a day that was played by several is one day."""
    if is_one_history(episodes):
        return [returns_by_date(episodes)]
    return [one.returns for one in episodes]


def lighter(outcome: PolicyOutcome) -> PolicyOutcome:
    """The outcome of a baseline without what nobody looks at in all its episodes but the first."""
    first, *others = outcome.episodes
    nothing = np.zeros((0, 0))
    slim = [replace(one, actions=nothing, weights=None, prices=None, fills=None) for one in others]
    return replace(outcome, episodes=[first, *slim])
