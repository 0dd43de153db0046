from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.latency import BOUNDS, BOUNDS_MS, LatencyHistogram

DURATIONS = st.lists(
    st.one_of(st.integers(0, 100), st.integers(0, 10**7), st.integers(0, 2**47)), min_size=1
)


def counted(durations: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for duration in durations:
        histogram.add(duration)
    return histogram


@given(durations=DURATIONS, share=st.floats(0.0, 1.0))
def test_quantiles_are_within_two_percent(durations: list[int], share: float) -> None:
    found = counted(durations).quantile(share)

    ordered = np.sort(durations)
    exact = ordered[max(0, int(np.ceil(share * len(ordered))) - 1)]
    assert abs(found - exact) <= 0.02 * exact


@given(durations=DURATIONS, share=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_quantiles_are_those_of_numpy(durations: list[int], share: float) -> None:
    exact = np.quantile(durations, share, method="inverted_cdf")

    assert counted(durations).quantile(share) == pytest.approx(exact, rel=0.02)


@given(durations=DURATIONS)
def test_a_summary_counts_exactly_how_many_took_no_longer(durations: list[int]) -> None:
    summary = counted(durations).summary()

    assert summary.count == len(durations)
    assert summary.largest == max(durations) / 1e6
    assert summary.total == pytest.approx(sum(durations) / 1e6)
    assert [end for end, _ in summary.buckets] == list(BOUNDS_MS)
    assert [count for _, count in summary.buckets] == [
        sum(duration <= end for duration in durations) for end in BOUNDS
    ]
    assert summary.p50 <= summary.p99 <= summary.p999 <= summary.largest


@given(left=DURATIONS, right=DURATIONS)
def test_two_merged_are_one_that_counted_all(left: list[int], right: list[int]) -> None:
    merged = counted(left)
    merged.merge(counted(right))

    assert merged.summary() == counted(left + right).summary()


def test_none_take_no_time() -> None:
    summary = LatencyHistogram().summary()

    assert (summary.count, summary.p50, summary.largest, summary.total) == (0, 0.0, 0.0, 0.0)


def test_times_before_the_start_and_after_days_are_counted() -> None:
    summary = counted([-5, 10**18]).summary()

    assert (summary.count, summary.p50, summary.largest) == (2, 0.0, 1e12)


def test_the_memory_does_not_grow() -> None:
    histogram = counted([0])
    before = len(histogram._counts), len(histogram._bound_counts)

    for power in range(63):
        histogram.add(2**power)

    assert (len(histogram._counts), len(histogram._bound_counts)) == before


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        LatencyHistogram().quantile(share)


def test_counting_takes_less_than_a_microsecond() -> None:
    histogram, best = LatencyHistogram(), 1.0
    for _ in range(20):
        start = time.thread_time()
        for _ in range(1000):
            histogram.add(1_234_567)
        best = min(best, (time.thread_time() - start) / 1000)

    # Three times as long on machines that are slower.
    assert best < 3e-6
