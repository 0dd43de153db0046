"""Rolling and per-day operators of Qlib expressions, with the semantics of pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]
"""float32, float64 or bool array."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 1 << 20
"""Window cells reduced at once, which bounds memory."""
MIN_DEVIATION = 2e-5
"""Standard deviations up to this count as 0 where Qlib divides by them."""
MINUTE = np.timedelta64(60 * 10**9, "ns")


@dataclass(frozen=True, slots=True)
class Window:
    """Calendar slots over which an expression is evaluated."""

    first: int
    """Calendar index of the first slot."""
    times: NDArray[np.datetime64]
    days: NDArray[np.int64]
    """Day number of each slot, ascending."""
    origin: int
    """Slot at which the data of the asset begin."""

    @property
    def slots(self) -> NDArray[np.int64]:
        """Calendar indices of the slots."""
        return np.arange(self.first, self.first + len(self.times))


def day_last(window: Window, values: Array) -> Array:
    """Last valid value of each day, broadcast to all slots of the day.

    It is known only at the end of the day, so it must be moved to a later day by `Ref`.
    """
    numbers = _as_floats(values)
    valid = np.flatnonzero(~np.isnan(numbers))
    if not len(valid):
        return np.full(len(numbers), np.nan, numbers.dtype)
    ends = np.searchsorted(window.days[valid], window.days, "right") - 1
    index = valid[np.maximum(ends, 0)]
    same_day = (ends >= 0) & (window.days[index] == window.days)
    return np.where(same_day, numbers[index], np.nan).astype(numbers.dtype)


def day_cumsum(window: Window, values: Array, start: str, end: str, granularity: int) -> Array:
    """Cumulative sum since `start` of the day; 0 before `start` and after `end`."""
    numbers = _as_floats(values)
    clock = window.times - window.times.astype("datetime64[D]")
    before = clock <= _time(start) - granularity * MINUTE
    result = np.zeros(len(numbers), numbers.dtype)
    counted = np.where(before, 0, numbers)
    _, begins = np.unique(window.days, return_index=True)
    stops = [*begins[1:], len(numbers)][: len(begins)]
    for begin, stop in zip(begins, stops, strict=True):
        day = counted[begin:stop]
        result[begin:stop] = np.where(np.isnan(day), np.nan, np.nancumsum(day))
    return np.where(clock > _time(end), 0, result).astype(numbers.dtype)


def cut(window: Window, values: Array, left: int, _: None) -> Array:
    """Values with the first `left` slots of the asset set to NaN."""
    numbers = _as_floats(values)
    return np.where(window.slots >= window.origin + left, numbers, np.nan).astype(numbers.dtype)


def _time(text: str) -> np.timedelta64:
    hours, minutes = text.split(":")
    return (60 * int(hours) + int(minutes)) * MINUTE


def shift(_: Window, values: Array, slots: int) -> Array:
    """Values of `slots` slots ago; the first value everywhere for 0."""
    numbers = _as_floats(values)
    result = np.full(len(numbers), np.nan, numbers.dtype)
    if slots == 0:
        result[:] = numbers[0] if len(numbers) else np.nan
    else:
        result[slots:] = numbers[:-slots]
    return result


def difference(window: Window, values: Array, slots: int) -> Array:
    """Change of the values over `slots` slots."""
    with np.errstate(invalid="ignore"):
        change: Array = _as_floats(values) - shift(window, values, slots)
    return change


def forward_fill(_: Window, values: Array) -> Array:
    """Missing values replaced by the last valid value."""
    if values.dtype.kind != "f":
        return values
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(last >= 0, values[last], np.nan).astype(values.dtype)


def exponential_mean(_: Window, values: Array, size: float) -> Array:
    """Exponential moving average; missing values advance the decay."""
    decay = 1.0 - (size if size < 1 else 2.0 / (size + 1.0))
    result = np.full(len(values), np.nan)
    mean, weight = float("nan"), 0.0
    for index, value in enumerate(finite(values).tolist()):
        weight *= decay
        if value == value:
            # In this form the mean stays valid when the weight has underflowed to 0.
            mean = (weight * mean + value) / (weight + 1.0) if mean == mean else value
            weight += 1.0
        result[index] = mean
    return result


def reduction(name: str, window: Window, values: Array, size: float) -> Array:
    """Rolling reduction of the last `size` slots without missing values; expanding for size 0."""
    if 0 < size < 1:
        return exponential_mean(window, values, size)
    numbers = finite(values)
    if size == 0:
        return _expanding(name, numbers)
    result = np.full(len(numbers), np.nan)
    for part, windows in sliding_windows(numbers, int(size)):
        counts = np.isfinite(windows).sum(axis=1)
        with np.errstate(all="ignore"):
            reduced = REDUCTIONS[name](windows, counts)
        result[part] = np.where(counts > 0, reduced, np.nan)
    return result


def statistic(name: str, _: Window, values: Array, size: int) -> Floats:
    """Rolling statistic of the last `size` slots without missing values."""
    padding = {"IdxMax": -np.inf, "IdxMin": np.inf}.get(name, np.nan)
    numbers = finite(values)
    result = np.full(len(numbers), np.nan)
    for part, windows in sliding_windows(numbers, size, padding):
        counts = np.isfinite(windows).sum(axis=1)
        lengths = np.minimum(np.arange(part.start, part.stop) + 1, size)
        with np.errstate(all="ignore"):
            computed = STATISTICS[name](windows, counts, lengths)
        result[part] = np.where(counts > 0, computed, np.nan)
    return result


def quantile(_: Window, values: Array, size: int, fraction: float) -> Floats:
    """Rolling quantile with linear interpolation."""
    numbers = finite(values)
    result = np.full(len(numbers), np.nan)
    for part, windows in sliding_windows(numbers, size):
        result[part] = _quantiles(windows, np.isfinite(windows).sum(axis=1), fraction)
    return result


def pair_statistic(name: str, _: Window, left: Array, right: Array, size: int) -> Floats:
    """Rolling statistic of two columns over the slots in which both are valid."""
    result = np.full(len(left), np.nan)
    for (part, lefts), (_part, rights) in zip(
        sliding_windows(finite(left), size), sliding_windows(finite(right), size), strict=True
    ):
        with np.errstate(all="ignore"):
            result[part] = PAIRS[name](lefts, rights)
    return result


def sliding_windows(
    numbers: Floats, size: int, padding: float = np.nan
) -> Iterator[tuple[slice, Floats]]:
    """Yield the trailing windows of `size` slots, a block of slots at a time.

    Args:
        numbers: values of all slots.
        size: window length.
        padding: value of slots before the first.
    """
    padded = np.concatenate([np.full(size - 1, padding), numbers])
    step = max(1, BLOCK // size)
    for begin in range(0, len(numbers), step):
        end = min(begin + step, len(numbers))
        yield slice(begin, end), sliding_window_view(padded[begin : end + size - 1], size)


def finite(values: Array) -> Floats:
    """float64 values with infinities replaced by NaN, as in pandas."""
    numbers = np.asarray(values, np.float64)
    return np.where(np.isinf(numbers), np.nan, numbers)


def _as_floats(values: Array) -> Array:
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _mean(windows: Floats, counts: Ints) -> Any:
    return np.nansum(windows, axis=1) / counts


def _variance(windows: Floats, counts: Ints) -> Any:
    deviations = windows - _mean(windows, counts)[:, None]
    return np.where(counts > 1, np.nansum(deviations**2, axis=1) / (counts - 1), np.nan)


REDUCTIONS: dict[str, Callable[[Floats, Ints], Any]] = {
    "Sum": lambda windows, counts: np.nansum(windows, axis=1),
    "Mean": _mean,
    "Var": _variance,
    "Std": lambda windows, counts: np.sqrt(_variance(windows, counts)),
    "Max": lambda windows, counts: np.fmax.reduce(windows, axis=1),
    "Min": lambda windows, counts: np.fmin.reduce(windows, axis=1),
}
"""Functions of the windows and of the number of valid values in each."""


def _expanding(name: str, numbers: Floats) -> Floats:
    if name in ("Max", "Min"):
        return (np.fmax if name == "Max" else np.fmin).accumulate(numbers)
    count, mean, squares = 0, 0.0, 0.0
    result = np.full(len(numbers), np.nan)
    for index, value in enumerate(numbers.tolist()):
        if value == value:
            count += 1
            deviation = value - mean
            mean += deviation / count
            squares += deviation * (value - mean)
        if count:
            result[index] = _moment(name, count, mean, squares)
    return result


def _moment(name: str, count: int, mean: float, squares: float) -> float:
    if name in ("Sum", "Mean"):
        return mean * count if name == "Sum" else mean
    variance = squares / (count - 1) if count > 1 else float("nan")
    return variance if name == "Var" else float(np.sqrt(variance))


def _quantiles(windows: Floats, counts: Ints, fraction: float) -> Floats:
    ordered = np.sort(windows, axis=1)
    position = fraction * np.maximum(counts - 1, 0)
    low = np.floor(position).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    rows = np.arange(len(windows))
    below, above = ordered[rows, low], ordered[rows, high]
    between: Floats = below + (above - below) * (position - low)
    return between


def _weighted_mean(windows: Floats, counts: Ints, lengths: Ints) -> Any:
    weights = np.arange(1, windows.shape[1] + 1) - (windows.shape[1] - lengths)[:, None]
    shares = weights / (lengths * (lengths + 1) / 2)[:, None]
    return np.nansum(shares * windows, axis=1) / counts


def _rank(windows: Floats, counts: Ints, _: Ints) -> Floats:
    last = windows[:, -1:]
    below, equal = (windows < last).sum(axis=1), (windows == last).sum(axis=1)
    return np.where(np.isnan(last[:, 0]), np.nan, (below + (equal + 1) / 2) / counts)


def _slot(columns: Ints, windows: Floats, lengths: Ints) -> Any:
    """Slots of a window that starts after its padding, counted from 1."""
    return columns + 1.0 - (windows.shape[1] - lengths)


def _regression(windows: Floats, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Slope, fitted value at the last slot, and R squared of a linear regression on time."""
    slots = np.where(np.isfinite(windows), np.arange(1.0, windows.shape[1] + 1), np.nan)
    mean_slot, mean = np.nansum(slots, axis=1) / counts, np.nansum(windows, axis=1) / counts
    slot_deviations, deviations = slots - mean_slot[:, None], windows - mean[:, None]
    products = np.nansum(slot_deviations * deviations, axis=1)
    slot_squares = np.nansum(slot_deviations * slot_deviations, axis=1)
    squares = np.nansum(deviations * deviations, axis=1)
    slope = products / slot_squares
    constant = np.sqrt(squares / (counts - 1)) <= MIN_DEVIATION
    r_squared = np.where(constant, np.nan, products * products / (slot_squares * squares))
    return slope, mean + slope * (windows.shape[1] - mean_slot), r_squared


STATISTICS: dict[str, Callable[[Floats, Ints, Ints], Any]] = {
    "Count": lambda windows, counts, lengths: counts.astype(np.float64),
    "Med": lambda windows, counts, lengths: _quantiles(windows, counts, 0.5),
    "Mad": lambda windows, counts, lengths: _mean(
        np.abs(windows - _mean(windows, counts)[:, None]), counts
    ),
    "WMA": _weighted_mean,
    "Rank": _rank,
    "IdxMax": lambda windows, counts, lengths: _slot(np.argmax(windows, axis=1), windows, lengths),
    "IdxMin": lambda windows, counts, lengths: _slot(np.argmin(windows, axis=1), windows, lengths),
    "Slope": lambda windows, counts, lengths: _regression(windows, counts)[0],
    "Resi": lambda windows, counts, lengths: windows[:, -1] - _regression(windows, counts)[1],
    "Rsquare": lambda windows, counts, lengths: _regression(windows, counts)[2],
}
"""Functions of the windows, their numbers of valid values, and their numbers of slots."""


def _covariance(left: Floats, right: Floats) -> Floats:
    both = np.isfinite(left) & np.isfinite(right)
    counts = both.sum(axis=1)
    deviations = []
    for windows in (left, right):
        shared = np.where(both, windows, np.nan)
        deviations.append(shared - (np.nansum(shared, axis=1) / counts)[:, None])
    covariance = np.nansum(deviations[0] * deviations[1], axis=1) / (counts - 1)
    return np.where(counts > 1, covariance, np.nan)


def _correlation(left: Floats, right: Floats) -> Floats:
    both = np.isfinite(left) & np.isfinite(right)
    shared = [np.where(both, windows, np.nan) for windows in (left, right)]
    scale = np.sqrt(_covariance(shared[0], shared[0]) * _covariance(shared[1], shared[1]))
    deviations = [np.sqrt(_covariance(windows, windows)) for windows in (left, right)]
    constant = (deviations[0] <= MIN_DEVIATION) | (deviations[1] <= MIN_DEVIATION)
    return np.where(constant, np.nan, _covariance(*shared) / scale)


PAIRS: dict[str, Callable[[Floats, Floats], Floats]] = {"Cov": _covariance, "Corr": _correlation}
