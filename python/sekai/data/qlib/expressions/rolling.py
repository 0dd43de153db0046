"""Operators that look back over a number of slots, as pandas computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sekai.data.qlib.expressions.operator import Array, Window

__all__ = [
    "REDUCTIONS", "clean", "difference", "filled", "rolled", "shifted", "smoothed", "windows_of",
]  # fmt: skip

Floats = NDArray[np.float64]
BLOCK = 1 << 20
"""Cells of windows that are reduced at a time, so that memory stays small."""


def shifted(_: Window, values: Array, slots: int) -> Array:
    """Values of some slots before; of the first slot for 0."""
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    moved = np.full(len(values), np.nan, kind)
    if slots == 0:
        moved[:] = values[0] if len(values) else np.nan
    else:
        moved[slots:] = values[:-slots]
    return moved


def difference(window: Window, values: Array, slots: int) -> Array:
    """How far values are above those of some slots before."""
    with np.errstate(invalid="ignore"):
        above: Array = np.asarray(values, _kind(values)) - shifted(window, values, slots)
    return above


def filled(_: Window, values: Array) -> Array:
    """The last value that is there."""
    if values.dtype.kind != "f":
        return values
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(last >= 0, values[last], np.nan).astype(values.dtype)


def smoothed(_: Window, values: Array, size: float) -> Array:
    """Exponential mean whose weights count the slots of missing values too."""
    kept = 1.0 - (size if size < 1 else 2.0 / (size + 1.0))
    result = np.full(len(values), np.nan)
    mean, weight = float("nan"), 0.0
    for place, value in enumerate(clean(values).tolist()):
        weight *= kept
        if value == value:
            # Weighed against what was before: a weight that has faded away keeps the mean.
            mean = (weight * mean + value) / (weight + 1.0) if mean == mean else value
            weight += 1.0
        result[place] = mean
    return result


def rolled(name: str, _: Window, values: Array, size: float) -> Array:
    """A reduction of the last `size` slots, missing values left out; of all before for 0."""
    if 0 < size < 1:
        return smoothed(_, values, size)
    numbers = clean(values)
    if size == 0:
        return _expanding(name, numbers)
    reduce = REDUCTIONS[name]
    result = np.full(len(numbers), np.nan)
    for part, windows in windows_of(numbers, int(size)):
        counts = np.isfinite(windows).sum(axis=1)
        with np.errstate(all="ignore"):
            found = reduce(windows, counts)
        result[part] = np.where(counts > 0, found, np.nan)
    return result


def windows_of(
    numbers: Floats, size: int, before: float = np.nan
) -> Iterator[tuple[slice, Floats]]:
    """The last `size` slots of each slot, some slots at a time.

    Args:
        numbers: of all slots.
        size: how many slots a window has.
        before: what stands in windows for slots before the first.
    """
    padded = np.concatenate([np.full(size - 1, before), numbers])
    step = max(1, BLOCK // size)
    for begin in range(0, len(numbers), step):
        end = min(begin + step, len(numbers))
        yield slice(begin, end), sliding_window_view(padded[begin : end + size - 1], size)


def _sum(windows: Floats, _: Any) -> Floats:
    total: Floats = np.nansum(windows, axis=1)
    return total


def _mean(windows: Floats, counts: Any) -> Floats:
    mean: Floats = _sum(windows, counts) / counts
    return mean


def _variance(windows: Floats, counts: Any) -> Floats:
    away = windows - _mean(windows, counts)[:, None]
    return np.where(counts > 1, np.nansum(away * away, axis=1) / (counts - 1), np.nan)


def _deviation(windows: Floats, counts: Any) -> Floats:
    root: Floats = np.sqrt(_variance(windows, counts))
    return root


def _maximum(windows: Floats, _: Any) -> Floats:
    highest: Floats = np.fmax.reduce(windows, axis=1)
    return highest


def _minimum(windows: Floats, _: Any) -> Floats:
    lowest: Floats = np.fmin.reduce(windows, axis=1)
    return lowest


REDUCTIONS: dict[str, Callable[[Floats, Any], Floats]] = {
    "Sum": _sum,
    "Mean": _mean,
    "Var": _variance,
    "Std": _deviation,
    "Max": _maximum,
    "Min": _minimum,
}
"""Of windows by slots, and how many values each window has."""


def _expanding(name: str, numbers: Floats) -> Floats:
    """The reduction of every slot so far."""
    if name in ("Max", "Min"):
        return (np.fmax if name == "Max" else np.fmin).accumulate(numbers)
    count, mean, squares = 0, 0.0, 0.0
    result = np.full(len(numbers), np.nan)
    for place, value in enumerate(numbers.tolist()):
        if value == value:
            count += 1
            away = value - mean
            mean += away / count
            squares += away * (value - mean)
        if count:
            result[place] = _moment(name, count, mean, squares)
    return result


def _moment(name: str, count: int, mean: float, squares: float) -> float:
    if name in ("Sum", "Mean"):
        return mean * count if name == "Sum" else mean
    variance = squares / (count - 1) if count > 1 else float("nan")
    return variance if name == "Var" else float(np.sqrt(variance))


def clean(values: Array) -> Floats:
    """Numbers of 64 bits; what is infinite counts as missing, as pandas has it."""
    numbers = np.asarray(values, np.float64)
    return np.where(np.isinf(numbers), np.nan, numbers)


def _kind(values: Array) -> Any:
    return values.dtype if values.dtype.kind == "f" else np.float64
