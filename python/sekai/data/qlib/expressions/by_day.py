"""Operators that know where a day begins."""

from __future__ import annotations

import numpy as np

from sekai.data.qlib.expressions.operator import Array, Window

__all__ = ["cumulated", "cut", "last"]

MINUTE = np.timedelta64(60 * 10**9, "ns")


def last(window: Window, values: Array) -> Array:
    """The last value of each day that is there, in all of its slots.

    Only a later day may see it: what moves it there is `Ref`.
    """
    numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
    there = np.flatnonzero(~np.isnan(numbers))
    ends = np.searchsorted(window.days[there], window.days, "right") - 1
    found = there[np.maximum(ends, 0)] if len(there) else np.zeros(len(values), np.int64)
    hit = (ends >= 0) & (window.days[found] == window.days) if len(there) else ends >= 0
    return np.where(hit, numbers[found], np.nan).astype(numbers.dtype)


def cumulated(window: Window, values: Array, start: str, end: str, granularity: int) -> Array:
    """The sum since `start` of the day, 0 before it and after `end`."""
    numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
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
    """The values without the first ones of the asset."""
    numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
    return np.where(window.slots >= window.origin + left, numbers, np.nan).astype(numbers.dtype)


def _time(text: str) -> np.timedelta64:
    hours, minutes = text.split(":")
    return (60 * int(hours) + int(minutes)) * MINUTE
