"""Paired comparison of two evaluations on the same dates or seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.evaluation.evaluation import Episode, Evaluation, Interval, format_bounds, format_value
from sekai.evaluation.metrics import HIGHER_IS_BETTER
from sekai.evaluation.scorer import (
    MIN_RETURNS,
    RETURN_METRICS,
    needs_bootstrap,
    padded_to,
    sample_returns,
)
from sekai.evaluation.statistics import paired, paired_bootstrap
from sekai.storage.names import unknown_name

if TYPE_CHECKING:
    from sekai.evaluation.walk_forward import WalkForwardEvaluation

__all__ = ["EvaluationComparison", "compare"]

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationComparison:
    """Paired difference between the agents of two evaluations."""

    first: str
    """Name of the first agent."""

    second: str
    metric: str
    difference: float
    """Difference of the metric, positive where the first agent is better."""

    interval: Interval
    """The difference with its confidence interval."""

    p_value: float
    """Two-sided p-value of no difference."""

    wins: float
    """Share of episodes in which the first agent is better."""

    pairs: int
    """Number of paired observations: dates, or seeds."""

    paired_by: str
    """"dates" (block bootstrap over paired returns) or "seeds" (paired t-test)."""

    @property
    def standing(self) -> str:
        """Result of the test: "first", "second" or "inconclusive"."""
        if not self.p_value < 1.0 - self.interval.level:
            return "inconclusive"
        if self.interval.low > 0:
            return "first"
        return "second" if self.interval.high < 0 else "inconclusive"

    def to_frame(self, backend: str = "pandas") -> Any:
        """Frame of one row.

        Args:
            backend: `pandas`, `polars` or `pyarrow`.
        """
        from sekai.data.writing import as_frame

        columns = {
            "first": self.first,
            "second": self.second,
            "metric": self.metric,
            "difference": self.difference,
            "low": self.interval.low,
            "high": self.interval.high,
            "level": self.interval.level,
            "p_value": self.p_value,
            "wins": self.wins,
            "pairs": self.pairs,
            "paired_by": self.paired_by,
            "better": self.standing,
        }
        return as_frame(
            {name: [value] for name, value in columns.items()},
            backend,
            "EvaluationComparison.to_frame",
        )

    def __repr__(self) -> str:
        return (
            f"EvaluationComparison({self.first} - {self.second}: {self.metric} "
            f"{format_value(self.difference)} {format_bounds(self.interval)}, "
            f"p {format_value(self.p_value)}, {self.pairs} {self.paired_by})"
        )


def compare(
    first: Evaluation | WalkForwardEvaluation,
    second: Evaluation | WalkForwardEvaluation,
    *,
    metric: str = "sharpe",
) -> EvaluationComparison:
    """Compare the agents of two evaluations that were judged on the same dates or seeds.

    Agents may differ in features, lookback and training; the judged rows may not. Of walk-forward
    results, the joined test rows are compared.

    Args:
        first: evaluation, or walk-forward result.
        second: evaluation, or walk-forward result.
        metric: metric of the difference, such as `sharpe` or the headline of the task.

    Raises:
        ValueError: the evaluations have different dates, rows or seeds, or lack the metric.
    """
    own, other = _evaluation(first), _evaluation(second)
    _check_metric(own, other, metric)
    _check_pairs(own, other)
    episodes = own.agent.episodes, other.agent.episodes
    higher = HIGHER_IS_BETTER.get(metric, True)
    higher = own.higher_is_better if metric == own.headline else higher
    level = own.agent.metrics[metric].level
    values = own.agent.by_seed[metric], other.agent.by_seed[metric]
    if needs_bootstrap(episodes[0]) and metric in RETURN_METRICS:
        returns = [
            sample_returns(padded_to(policy_episodes, others))
            for policy_episodes, others in (episodes, episodes[::-1])
        ]
        statistic = partial(_of_returns, metric, own.periods_per_year)
        interval, p_value, _ = paired_bootstrap(
            returns[0], returns[1], statistic, higher, level=level, resamples=RESAMPLES
        )
        pairs, paired_by = sum(map(len, returns[0])), "dates"
    else:
        if len(values[0]) < 2:
            raise ValueError(
                f"one episode has no confidence interval of {metric}; evaluate with more seeds, or "
                f"on at least {MIN_RETURNS} rows with dates"
            )
        interval, p_value, _ = paired(*values, higher, level)
        pairs, paired_by = len(values[0]), "seeds"
    return EvaluationComparison(
        first=own.name,
        second=other.name,
        metric=metric,
        difference=interval.value,
        interval=interval,
        p_value=p_value,
        wins=_share_of_wins(*values, higher),
        pairs=pairs,
        paired_by=paired_by,
    )


def _share_of_wins(first: Sequence[float], second: Sequence[float], higher: bool) -> float:
    difference = np.subtract(first, second) * (1.0 if higher else -1.0)
    return math.nan if np.isnan(difference).any() else float(np.mean(difference > 0))


def _evaluation(result: Any) -> Evaluation:
    evaluation = getattr(result, "joined", result)
    if not isinstance(evaluation, Evaluation):
        raise TypeError(
            f"not an evaluation: {result!r:.80}; expected an Evaluation or a WalkForwardEvaluation"
        )
    return evaluation


def _check_metric(first: Evaluation, second: Evaluation, metric: str) -> None:
    shared = [name for name in first.agent.metrics if name in second.agent.metrics]
    if metric not in shared:
        raise ValueError(unknown_name("metric of both evaluations", metric, shared))


def _check_pairs(first: Evaluation, second: Evaluation) -> None:
    """Raise ValueError unless episodes are the same dates of the same data, or the same seeds."""
    names = f"{first.name!r} and {second.name!r}"
    counts = len(first.agent.episodes), len(second.agent.episodes)
    if counts[0] != counts[1]:
        raise ValueError(
            f"{names} have {counts[0]} and {counts[1]} episodes; evaluate both with the same seeds"
        )
    has_dates = all(
        episode.times is not None
        for evaluation in (first, second)
        for episode in evaluation.agent.episodes
    )
    if has_dates:
        _check_dates(first, second, names)
    elif (first.env, first.seeds) != (second.env, second.seeds):
        raise ValueError(
            f"{names} were evaluated on different episodes: {_seeds_text(first)} and "
            f"{_seeds_text(second)}; evaluate both on the same env and seeds"
        )


def _check_dates(first: Evaluation, second: Evaluation, names: str) -> None:
    for own, other in zip(first.agent.episodes, second.agent.episodes, strict=True):
        assert own.times is not None
        assert other.times is not None
        shorter = min(len(own.times), len(other.times))
        # An account that is ruined ends early.
        is_same_end = len(own.times) == len(other.times) or _is_ruined(own) or _is_ruined(other)
        if not is_same_end or not np.array_equal(own.times[:shorter], other.times[:shorter]):
            raise ValueError(
                f"{names} were judged on different dates: {_dates_text(own)} and "
                f"{_dates_text(other)}; evaluate both on the same test rows and seeds, with enough "
                "warm-up rows for the longest lookback"
            )
    digests = {first.provenance.judged_digest, second.provenance.judged_digest}
    if len(digests) > 1 and "" not in digests:
        raise ValueError(
            f"{names} were judged on the same dates of different data: assets or prices differ; "
            "evaluate both on the same assets and prices"
        )


def _is_ruined(episode: Episode) -> bool:
    return len(episode.equity) > 0 and not episode.equity[-1] > 0


def _dates_text(episode: Episode) -> str:
    assert episode.times is not None
    return f"{len(episode.times)} rows from {episode.times[0]!s:.10} to {episode.times[-1]!s:.10}"


def _seeds_text(evaluation: Evaluation) -> str:
    seeds = evaluation.seeds
    return f"{evaluation.env} with {len(seeds)} seeds from {min(seeds)} to {max(seeds)}"


def _of_returns(metric: str, periods: float, returns: Any) -> float:
    return float(RETURN_METRICS[metric](returns, periods))
