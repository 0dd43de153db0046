"""Intervals from the returns themselves, by a studentised stationary bootstrap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Interval
from sekai.evaluation.statistics.block_length import block_length
from sekai.evaluation.statistics.resampling import resampled_rows
from sekai.evaluation.statistics.seeds import check_level

__all__ = ["bootstrap_interval", "paired_bootstrap"]

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], float]
Method = Literal["studentised", "percentile"]

GROUPS = 10
"""Parts that are left out in turn to find a standard error."""

MOST_UNDEFINED = 0.05
"""The share of resamples that may have no value before bounds are not known."""


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """What resamples came to."""

    value: float
    error: float
    """The standard error of the value."""

    values: Floats
    """Of each resample, as is the next."""

    errors: Floats


def bootstrap_interval(
    tables: Floats | Sequence[Floats],
    statistic: Statistic,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    block: float | None = None,
    method: Method = "studentised",
) -> Interval:
    """A statistic of returns, and how far it may be from the truth.

    Resamples are of the stationary bootstrap. Bounds are studentised: each resample counts by its
    distance in standard errors of its own, found by leaving out one tenth of it after another.
    Such bounds hold the truth more often than percentiles do, most of all where returns have
    a memory; percentiles are for statistics with an edge that bounds must not cross, such as
    a drawdown. `benchmarks/honest_statistics.py` measures both.

    Args:
        tables: returns, step by step; or of several episodes, which are resampled within and
            across and joined end to end; or with columns, of which rows stay together.
        statistic: what to find of an array like `tables`, or like all of them joined.
        level: the share of such intervals that hold the truth.
        resamples: how many to draw.
        seed: of the draws.
        block: the expected length of blocks; None to find it from the data.
        method: "studentised" or "percentile".

    Returns:
        Bounds that are NaN where the statistic is undefined or does not vary, or where there are
        fewer than 20 rows.
    """
    check_level(level)
    draws = _drawn(_listed(tables), statistic, resamples, seed, block, method)
    low, high = _bounds(draws, level, method)
    return Interval(value=draws.value, low=low, high=high, level=level, method="bootstrap")


def paired_bootstrap(
    agent: Floats | Sequence[Floats],
    baseline: Floats | Sequence[Floats],
    statistic: Statistic,
    higher_is_better: bool = True,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    block: float | None = None,
) -> tuple[Interval, float, float]:
    """How far an agent's statistic is ahead of a baseline's, over returns of the same steps.

    Returns:
        The difference with its interval, the chance of one so large where there is none (from
        both sides), and the share of episodes in which the agent is ahead.
    """
    check_level(level)
    sign = 1.0 if higher_is_better else -1.0
    pairs = _paired(_listed(agent), _listed(baseline))

    def ahead(pair: Floats) -> float:
        return sign * (statistic(pair[:, 0]) - statistic(pair[:, 1]))

    draws = _drawn(pairs, ahead, resamples, seed, block, "studentised")
    low, high = _bounds(draws, level, "studentised")
    difference = Interval(value=draws.value, low=low, high=high, level=level, method="bootstrap")
    wins = float(np.mean([ahead(pair) > 0 for pair in pairs]))
    return difference, _chance(draws), wins


def _listed(tables: Floats | Sequence[Floats]) -> list[Floats]:
    listed = [tables] if isinstance(tables, np.ndarray) else list(tables)
    found = [np.asarray(table, np.float64) for table in listed]
    if not found or any(table.ndim not in (1, 2) or not len(table) for table in found):
        shapes = [table.shape for table in found]
        raise ValueError(f"tables of at least 1 return were wanted, found shapes {shapes}")
    return found


def _paired(agent: list[Floats], baseline: list[Floats]) -> list[Floats]:
    lengths, others = [len(one) for one in agent], [len(one) for one in baseline]
    if lengths != others:
        raise ValueError(
            f"returns of the same steps were wanted, found {lengths} of the agent and {others} "
            "of the baseline"
        )
    return [np.column_stack(both) for both in zip(agent, baseline, strict=True)]


def _drawn(
    tables: list[Floats],
    statistic: Statistic,
    resamples: int,
    seed: int,
    block: float | None,
    method: Method,
) -> _Draws:
    if method not in ("studentised", "percentile"):
        raise ValueError(f"method must be 'studentised' or 'percentile', was {method!r}")
    if resamples < 1 or (block is not None and not block >= 1):
        raise ValueError(
            f"1 resample or more and blocks of 1 or more were wanted, found {resamples} resamples "
            f"and blocks of {block}"
        )
    rows = np.concatenate(tables)
    value = float(statistic(rows))
    nothing = np.full(0, math.nan)
    if not math.isfinite(value) or len(rows) < 2 * GROUPS:
        return _Draws(value, math.nan, nothing, nothing)
    expected = _block_of(tables) if block is None else block
    lengths, rng = [len(table) for table in tables], np.random.default_rng(seed)
    values, errors = [], []
    for drawn in resampled_rows(lengths, expected, resamples, rng):
        for places in drawn:
            resample = rows[places]
            values.append(float(statistic(resample)))
            errors.append(_error(resample, statistic) if method == "studentised" else 0.0)
    return _Draws(value, _error(rows, statistic), np.array(values), np.array(errors))


def _block_of(tables: list[Floats]) -> float:
    """The longest that any column asks for; of pairs also what their difference asks for."""
    columns = [table.reshape(len(table), -1) for table in tables]
    width = columns[0].shape[1]
    series = [[table[:, place] for table in columns] for place in range(width)]
    if width == 2:
        series.append([table[:, 0] - table[:, 1] for table in columns])
    return max(block_length(one) for one in series)


def _error(rows: Floats, statistic: Statistic) -> float:
    """The standard error of a statistic, from what leaving out a part of the rows changes."""
    edges = [len(rows) * place // GROUPS for place in range(GROUPS + 1)]
    left = [
        float(statistic(np.concatenate((rows[:begin], rows[end:]))))
        for begin, end in itertools.pairwise(edges)
    ]
    mean = sum(left) / GROUPS
    return math.sqrt((GROUPS - 1) / GROUPS * sum((one - mean) ** 2 for one in left))


def _distances(draws: _Draws) -> Floats:
    """How many standard errors of its own each resample is from the value."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (draws.values - draws.value) / draws.errors
    return _defined(found)


def _defined(values: Floats) -> Floats:
    """The finite ones; none at all where too many are not."""
    finite = values[np.isfinite(values)]
    return finite if len(finite) >= (1.0 - MOST_UNDEFINED) * len(values) else finite[:0]


def _bounds(draws: _Draws, level: float, method: Method) -> tuple[float, float]:
    shares = [0.5 - level / 2.0, 0.5 + level / 2.0]
    if method == "percentile":
        values = _defined(draws.values)
        if not len(values) or not np.ptp(values) > 0:
            return math.nan, math.nan
        low, high = np.quantile(values, shares)
        return float(low), float(high)
    distances = _distances(draws)
    if not len(distances) or not draws.error > 0:
        return math.nan, math.nan
    low, high = np.quantile(distances, shares)
    return draws.value - float(high) * draws.error, draws.value - float(low) * draws.error


def _chance(draws: _Draws) -> float:
    """The chance, from both sides, of a distance from the truth that is as large as from 0."""
    distances = _distances(draws)
    if not len(distances) or not draws.error > 0:
        return 1.0 if draws.value == 0 else math.nan
    found = draws.value / draws.error
    beyond = min(np.count_nonzero(distances >= found), np.count_nonzero(distances <= found))
    return min(1.0, 2.0 * (1.0 + float(beyond)) / (1.0 + len(distances)))
