"""Stationary bootstrap: studentized confidence intervals, automatic block length, p-values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Interval
from sekai.evaluation.statistics.significance import check_level

__all__ = [
    "block_length",
    "bootstrap_interval",
    "effective_observations",
    "paired_bootstrap",
    "stationary_bootstrap_rows",
]

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], float]
Method = Literal["studentised", "percentile"]

GROUPS = 10
"""Groups of the jackknife standard error."""

MAX_UNDEFINED = 0.05
"""Share of undefined resamples above which bounds are NaN."""

BATCH_SIZE = 1 << 20
"""Row numbers held in memory at a time."""

NEGLIGIBLE_LAGS = 5
"""Consecutive negligible autocorrelations after which all later ones count as 0."""


class AutocovarianceSums(NamedTuple):
    """Weighted sums of autocovariances over the relevant lags, in both directions."""

    variance: float
    long_run: float
    """Long-run variance: variance of the mean times the number of returns."""

    curvature: float
    """Long-run sum with each autocovariance multiplied by its lag."""


@dataclass(frozen=True, slots=True, eq=False)
class _Resamples:
    """Statistic and standard error of the sample and of each resample."""

    value: float
    error: float
    values: Floats
    errors: Floats

    @property
    def distances(self) -> Floats:
        """Studentized distance of each resample from the value."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return _defined((self.values - self.value) / self.errors)


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
    """Bootstrap confidence interval of a statistic of returns.

    Resamples are drawn by the stationary bootstrap. Studentized bounds use the jackknife standard
    error of each resample and have better coverage than percentile bounds, above all for
    autocorrelated returns; percentile bounds suit statistics with a natural limit, such as a
    drawdown. `benchmarks/evaluation_statistics.py` measures the coverage of both.

    Args:
        tables: returns by step; or of several episodes, which are resampled within and across and
            concatenated; or with columns, whose rows stay together.
        statistic: function of an array like `tables`, or like all of them concatenated.
        level: confidence level.
        resamples: number of resamples.
        seed: seed of the draws.
        block: expected block length; estimated from the data if None.
        method: "studentised" or "percentile".

    Returns:
        The interval; its bounds are NaN, with a reason, if the statistic is undefined, or the same
        in all resamples, or for fewer than 20 rows.
    """
    check_level(level)
    drawn = _draw(_listed(tables), statistic, resamples, seed, block, method)
    return _interval(drawn, level, method)


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
    """Paired bootstrap test of an agent against a baseline over returns of the same steps.

    Returns:
        The difference, positive where the agent is better, with its confidence interval; the
        two-sided p-value; and the share of episodes in which the agent is better.
    """
    check_level(level)
    sign = 1.0 if higher_is_better else -1.0
    pairs = _paired(_listed(agent), _listed(baseline))

    def lead(pair: Floats) -> float:
        return sign * (statistic(pair[:, 0]) - statistic(pair[:, 1]))

    drawn = _draw(pairs, lead, resamples, seed, block, "studentised")
    wins = float(np.mean([lead(pair) > 0 for pair in pairs]))
    return _interval(drawn, level, "studentised"), _p_value(drawn), wins


def block_length(series: Sequence[Floats]) -> float:
    """Optimal expected block length of the stationary bootstrap of the mean.

    Follows Politis and White (2004) with the correction of Patton, Politis and White (2009).
    Episodes with different means give long blocks.
    """
    total = sum(len(values) for values in series)
    if total < 4:
        return 1.0
    longest = float(math.ceil(min(3.0 * math.sqrt(total), total / 3.0)))
    sums = autocovariance_sums(series)
    if not sums.variance > 0:
        return 1.0
    if not sums.long_run > 0:
        return longest
    optimal = math.pow(total * (sums.curvature / sums.long_run) ** 2, 1.0 / 3.0)
    return min(max(1.0, optimal), longest)


def effective_observations(returns: Floats) -> float:
    """Effective sample size of autocorrelated returns; at most their number."""
    if len(returns) < 4:
        return float(len(returns))
    sums = autocovariance_sums([returns])
    if not sums.long_run > sums.variance:
        return float(len(returns))
    return len(returns) * sums.variance / sums.long_run


def autocovariance_sums(series: Sequence[Floats]) -> AutocovarianceSums:
    """Autocovariance sums with the flat-top lag window of Politis and White (2004).

    Series of several episodes are centred on their common mean, so that differences between
    episodes appear as autocorrelation that does not decay.
    """
    total = sum(len(values) for values in series)
    covariances = _autocovariances(series, total)
    variance = float(covariances[0])
    if not variance > 0:
        return AutocovarianceSums(variance, variance, 0.0)
    bandwidth = _bandwidth(covariances / variance, total)
    lag = np.arange(1, bandwidth + 1)
    weighted = 2.0 * np.minimum(2.0 - 2.0 * lag / bandwidth, 1.0) * covariances[lag]
    long_run = variance + float(np.sum(weighted))
    return AutocovarianceSums(variance, long_run, float(np.sum(weighted * lag)))


def stationary_bootstrap_rows(
    lengths: Sequence[int], block: float, resamples: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Draw row numbers of concatenated episodes: batches of resamples by rows.

    Stationary bootstrap of Politis and Romano (1994): a new block starts at a random row with
    probability `1 / block`; otherwise the next row follows, and the first row of an episode
    follows its last. Blocks do not cross episodes.
    """
    total = sum(lengths)
    length = np.repeat(np.asarray(lengths, np.int64), lengths)
    begin = np.repeat(np.cumsum([0, *lengths[:-1]], dtype=np.int64), lengths)
    batch = max(1, BATCH_SIZE // total)
    column = np.arange(total, dtype=np.int64)
    for done in range(0, resamples, batch):
        shape = (min(batch, resamples - done), total)
        starts = rng.random(shape) < 1.0 / block
        starts[:, 0] = True
        start = np.maximum.accumulate(np.where(starts, column, 0), axis=1)
        first = np.take_along_axis(rng.integers(0, total, shape), start, axis=1)
        origin = begin[first]
        yield origin + (first - origin + column - start) % length[first]


def _bandwidth(correlations: Floats, total: int) -> int:
    """Twice the first lag of a run of negligible autocorrelations."""
    negligible = np.abs(correlations[1:]) < 2.0 * math.sqrt(math.log10(total) / total)
    longest = _max_lag(total)
    for lag in range(longest - NEGLIGIBLE_LAGS):
        if negligible[lag : lag + NEGLIGIBLE_LAGS].all():
            return min(2 * (lag + 1), longest)
    return longest


def _autocovariances(series: Sequence[Floats], total: int) -> Floats:
    mean = sum(float(np.sum(values)) for values in series) / total
    sums = np.zeros(_max_lag(total) + 1)
    for values in series:
        centred = values - mean
        for lag in range(min(len(sums), len(centred))):
            sums[lag] += np.dot(centred[: len(centred) - lag], centred[lag:])
    return sums / total


def _max_lag(total: int) -> int:
    return math.ceil(math.sqrt(total)) + NEGLIGIBLE_LAGS


def _listed(tables: Floats | Sequence[Floats]) -> list[Floats]:
    listed = [tables] if isinstance(tables, np.ndarray) else list(tables)
    arrays = [np.asarray(table, np.float64) for table in listed]
    if not arrays or any(table.ndim not in (1, 2) or not len(table) for table in arrays):
        shapes = [table.shape for table in arrays]
        raise ValueError(f"tables must have 1 or 2 axes and at least 1 row, got shapes {shapes}")
    return arrays


def _paired(agent: list[Floats], baseline: list[Floats]) -> list[Floats]:
    lengths, others = [len(table) for table in agent], [len(table) for table in baseline]
    if lengths != others:
        raise ValueError(
            f"agent and baseline must have returns of the same steps, got lengths {lengths} and "
            f"{others}"
        )
    return [np.column_stack(both) for both in zip(agent, baseline, strict=True)]


def _draw(
    tables: list[Floats],
    statistic: Statistic,
    resamples: int,
    seed: int,
    block: float | None,
    method: Method,
) -> _Resamples:
    if method not in ("studentised", "percentile"):
        raise ValueError(f"method must be 'studentised' or 'percentile', got {method!r}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    if block is not None and not block >= 1:
        raise ValueError(f"block must be at least 1, got {block}")
    rows = np.concatenate(tables)
    value = float(statistic(rows))
    empty = np.full(0, math.nan)
    if not math.isfinite(value) or len(rows) < 2 * GROUPS:
        return _Resamples(value, math.nan, empty, empty)
    expected = _block_of(tables) if block is None else block
    lengths, rng = [len(table) for table in tables], np.random.default_rng(seed)
    values, errors = [], []
    for batch in stationary_bootstrap_rows(lengths, expected, resamples, rng):
        for indices in batch:
            resample = rows[indices]
            values.append(float(statistic(resample)))
            errors.append(_jackknife(resample, statistic) if method == "studentised" else 0.0)
    return _Resamples(value, _jackknife(rows, statistic), np.array(values), np.array(errors))


def _block_of(tables: list[Floats]) -> float:
    """Longest block length of any column; of pairs also of their difference."""
    columns = [table.reshape(len(table), -1) for table in tables]
    width = columns[0].shape[1]
    series = [[table[:, column] for table in columns] for column in range(width)]
    if width == 2:
        series.append([table[:, 0] - table[:, 1] for table in columns])
    return max(block_length(values) for values in series)


def _jackknife(rows: Floats, statistic: Statistic) -> float:
    """Standard error of a statistic, by the delete-a-group jackknife."""
    edges = [len(rows) * group // GROUPS for group in range(GROUPS + 1)]
    values = [
        float(statistic(np.concatenate((rows[:begin], rows[end:]))))
        for begin, end in itertools.pairwise(edges)
    ]
    mean = sum(values) / GROUPS
    return math.sqrt((GROUPS - 1) / GROUPS * sum((value - mean) ** 2 for value in values))


def _defined(values: Floats) -> Floats:
    """Finite values; none if too many are not finite."""
    finite = values[np.isfinite(values)]
    return finite if len(finite) >= (1.0 - MAX_UNDEFINED) * len(values) else finite[:0]


def _interval(drawn: _Resamples, level: float, method: Method) -> Interval:
    low, high = _bounds(drawn, level, method)
    return Interval(
        value=drawn.value,
        low=low,
        high=high,
        level=level,
        method="bootstrap",
        reason=_why_unbounded(drawn) if math.isnan(low) else "",
    )


def _why_unbounded(drawn: _Resamples) -> str:
    if not math.isfinite(drawn.value):
        return "undefined"
    if not len(drawn.values):
        return "too few returns"
    is_constant = len(_defined(drawn.values)) and np.all(drawn.values == drawn.values[0])
    return "equal values" if is_constant or drawn.error == 0 else "undefined in resamples"


def _bounds(drawn: _Resamples, level: float, method: Method) -> tuple[float, float]:
    shares = [0.5 - level / 2.0, 0.5 + level / 2.0]
    if method == "percentile":
        values = _defined(drawn.values)
        if not len(values) or not np.ptp(values) > 0:
            return math.nan, math.nan
        low, high = np.quantile(values, shares)
        return float(low), float(high)
    distances = drawn.distances
    if not len(distances) or not drawn.error > 0:
        return math.nan, math.nan
    low, high = np.quantile(distances, shares)
    return drawn.value - float(high) * drawn.error, drawn.value - float(low) * drawn.error


def _p_value(drawn: _Resamples) -> float:
    """Two-sided p-value of a value of 0."""
    distances = drawn.distances
    if not len(distances) or not drawn.error > 0:
        return 1.0 if drawn.value == 0 else math.nan
    observed = drawn.value / drawn.error
    beyond = min(np.count_nonzero(distances >= observed), np.count_nonzero(distances <= observed))
    return min(1.0, 2.0 * (1.0 + float(beyond)) / (1.0 + len(distances)))
