"""Latency histogram with bounded memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

__all__ = ["LatencyHistogram", "LatencySummary"]

PRECISION_BITS = 5
"""Each doubling is divided into 2 to this power buckets: a bucket is at most 1/32 wide."""

DOUBLINGS = 48
"""Durations up to 2 to this power nanoseconds (3 days) have buckets; longer ones share the last."""

LONGEST = (1 << DOUBLINGS) - 1
MILLISECOND = 1_000_000
BOUNDS_MS = (
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
    *(1_000.0, 2_500.0, 5_000.0, 10_000.0, 60_000.0, 600_000.0),
)
"""Upper bounds of the buckets of a summary, counted exactly."""

BOUNDS = tuple(round(bound * MILLISECOND) for bound in BOUNDS_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """Latency quantiles and buckets, in milliseconds."""

    count: int = 0
    p50: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    largest: float = 0.0
    buckets: tuple[tuple[float, int], ...] = ()
    """Upper bounds, and the cumulative number of durations up to each, as in Prometheus."""

    total: float = 0.0
    """Sum of all durations."""


class LatencyHistogram:
    """Histogram of durations; quantiles have a relative error of at most 2 %."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        """Sum of all durations in nanoseconds."""

        self.largest = 0
        self._counts = [0] * ((DOUBLINGS - PRECISION_BITS + 1) << PRECISION_BITS)
        self._bound_counts = [0] * (len(BOUNDS) + 1)

    def add(self, nanoseconds: int) -> None:
        """Count a duration; a negative one, from clocks that disagree, counts as 0."""
        if nanoseconds < 0:
            nanoseconds = 0
        value = nanoseconds if nanoseconds < LONGEST else LONGEST
        shift = value.bit_length() - PRECISION_BITS - 1
        # The highest bits give the bucket; small values have one each.
        self._counts[(shift << PRECISION_BITS) + (value >> shift) if shift > 0 else value] += 1
        self._bound_counts[bisect_left(BOUNDS, nanoseconds)] += 1
        self.count += 1
        self.total += nanoseconds
        if nanoseconds > self.largest:
            self.largest = nanoseconds

    def quantile(self, share: float) -> float:
        """Quantile in nanoseconds; 0 of an empty histogram."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be from 0 to 1, got {share}")
        rank = max(1, math.ceil(share * self.count))
        if rank >= self.count:
            return float(self.largest)
        before = 0
        for bucket, count in enumerate(self._counts):
            before += count
            if before >= rank:
                return min(_middle(bucket), float(self.largest))
        raise AssertionError("every duration is in a bucket")

    def merge(self, other: LatencyHistogram) -> None:
        """Add all durations of another histogram."""
        self._counts = _sums(self._counts, other._counts)
        self._bound_counts = _sums(self._bound_counts, other._bound_counts)
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def summary(self) -> LatencySummary:
        """Quantiles and buckets for monitors."""
        buckets, before = [], 0
        for bound, count in zip(BOUNDS_MS, self._bound_counts, strict=False):
            before += count
            buckets.append((bound, before))
        return LatencySummary(
            count=self.count,
            p50=self.quantile(0.5) / MILLISECOND,
            p99=self.quantile(0.99) / MILLISECOND,
            p999=self.quantile(0.999) / MILLISECOND,
            largest=self.largest / MILLISECOND,
            buckets=tuple(buckets),
            total=self.total / MILLISECOND,
        )


def _sums(left: list[int], right: list[int]) -> list[int]:
    return [a + b for a, b in zip(left, right, strict=True)]


def _middle(bucket: int) -> float:
    """Middle of the durations in a bucket."""
    shift = (bucket >> PRECISION_BITS) - 1
    if shift <= 0:
        return float(bucket)
    first = (bucket - (shift << PRECISION_BITS)) << shift
    return first + ((1 << shift) - 1) / 2
