"""Intervals over seeds: every episode is one draw."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Interval
from sekai.evaluation.metrics.performance import spread
from sekai.evaluation.statistics.distributions import student_quantile, student_tails

__all__ = ["paired", "seed_interval"]

Floats = NDArray[np.float64]


def seed_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The mean over seeds, with Student's interval.

    Bounds are NaN where they are not known: for one value, and for values that are all the same,
    since seeds that change nothing say nothing of what may be. A NaN among the values makes all
    of it NaN.
    """
    check_level(level)
    found = np.asarray(values, np.float64)
    mean = float(np.mean(found)) if len(found) else math.nan
    error = _standard_error(found)
    reach = student_quantile(0.5 + level / 2.0, len(found) - 1) * error if error > 0 else math.nan
    return Interval(value=mean, low=mean - reach, high=mean + reach, level=level, method="seeds")


def paired(
    agent_values: Sequence[float],
    baseline_values: Sequence[float],
    higher_is_better: bool = True,
    level: float = 0.95,
) -> tuple[Interval, float, float]:
    """How far an agent is ahead of a baseline on the same seeds, above 0 where it is better.

    Returns:
        The mean difference with its interval, the chance of one so large where there is none
        (from both sides, by Student's test), and the share of seeds on which the agent is ahead.
        Where all differences are the same there is no test: the chance is NaN, or 1 if they are 0.
    """
    if len(agent_values) != len(baseline_values):
        raise ValueError(
            f"values of the same seeds were wanted, found {len(agent_values)} of the agent and "
            f"{len(baseline_values)} of the baseline"
        )
    ahead = np.asarray(agent_values, np.float64) - np.asarray(baseline_values, np.float64)
    ahead = ahead if higher_is_better else -ahead
    if not len(ahead):
        raise ValueError("values of at least 1 seed were wanted, found none")
    wins = float(np.mean(ahead > 0)) if not np.isnan(ahead).any() else math.nan
    return seed_interval(list(ahead), level), _chance(ahead), wins


def check_level(level: float) -> None:
    """Refuse what is not a level of confidence."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, was {level}")


def _chance(ahead: Floats) -> float:
    if not np.any(ahead):
        return 1.0
    error = _standard_error(ahead)
    if not error > 0:
        return math.nan
    return student_tails(float(np.mean(ahead)) / error, len(ahead) - 1)


def _standard_error(values: Floats) -> float:
    return spread(values) / math.sqrt(len(values)) if len(values) else math.nan
