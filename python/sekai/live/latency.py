"""How long things take: counted in buckets, in memory that never grows."""

from __future__ import annotations

import math
from bisect import bisect_left

from sekai.live.status import LatencySummary

__all__ = ["LatencyHistogram"]

PARTS = 5
"""Each doubling of time is cut into 2 to this power buckets: a bucket is 1/32 wide at most."""

DOUBLINGS = 48
"""Times up to 2 to this power nanoseconds (3 days) have buckets; longer ones share the last."""

LONGEST = (1 << DOUBLINGS) - 1
MILLISECOND = 1_000_000
ENDS_MS = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0,
    1_000.0, 2_500.0, 5_000.0, 10_000.0, 60_000.0, 600_000.0,
)  # fmt: skip
"""What watchers are told how many took no longer than; counted exactly."""

ENDS = tuple(round(end * MILLISECOND) for end in ENDS_MS)


class LatencyHistogram:
    """Counts durations; a quantile is at most 2 % from the duration that it stands for."""

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0
        self.total = 0
        """All of them together, in nanoseconds."""

        self.largest = 0
        self._counts = [0] * ((DOUBLINGS - PARTS + 1) << PARTS)
        self._ends = [0] * (len(ENDS) + 1)

    def add(self, nanoseconds: int) -> None:
        """Count one; a negative one, from clocks that disagree, counts as 0."""
        if nanoseconds < 0:
            nanoseconds = 0
        kept = nanoseconds if nanoseconds < LONGEST else LONGEST
        shift = kept.bit_length() - PARTS - 1
        # The highest bits say which bucket it is; small numbers have one each.
        self._counts[(shift << PARTS) + (kept >> shift) if shift > 0 else kept] += 1
        self._ends[bisect_left(ENDS, nanoseconds)] += 1
        self.count += 1
        self.total += nanoseconds
        if nanoseconds > self.largest:
            self.largest = nanoseconds

    def quantile(self, share: float) -> float:
        """The duration in nanoseconds that `share` of all took no longer than; 0 of none."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be from 0 to 1, was {share}")
        rank = max(1, math.ceil(share * self.count))
        if rank >= self.count:
            return float(self.largest)
        before = 0
        for bucket, count in enumerate(self._counts):
            before += count
            if before >= rank:
                return min(_middle(bucket), float(self.largest))
        raise AssertionError("all are in a bucket")

    def merge(self, other: LatencyHistogram) -> None:
        """Count all that `other` has counted as well."""
        self._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]
        self._ends = [own + more for own, more in zip(self._ends, other._ends, strict=True)]
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def summary(self) -> LatencySummary:
        """What those who watch are told."""
        buckets, before = [], 0
        for end, count in zip(ENDS_MS, self._ends, strict=False):
            before += count
            buckets.append((end, before))
        return LatencySummary(
            count=self.count,
            p50=self.quantile(0.5) / MILLISECOND,
            p99=self.quantile(0.99) / MILLISECOND,
            p999=self.quantile(0.999) / MILLISECOND,
            largest=self.largest / MILLISECOND,
            buckets=tuple(buckets),
            total=self.total / MILLISECOND,
        )


def _middle(bucket: int) -> float:
    """The middle of the durations that share a bucket."""
    shift = (bucket >> PARTS) - 1
    if shift <= 0:
        return float(bucket)
    first = (bucket - (shift << PARTS)) << shift
    return first + ((1 << shift) - 1) / 2
