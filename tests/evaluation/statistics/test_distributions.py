"""The normal and the Student distribution, against scipy."""

from __future__ import annotations

import math

import pytest
import scipy.stats  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sekai.evaluation.statistics.significance import (
    normal_cdf,
    normal_quantile,
    student_cdf,
    student_quantile,
    student_tails,
)

freedoms = st.one_of(st.integers(1, 1000).map(float), st.floats(0.5, 1e4))
shares = st.floats(1e-6, 1 - 1e-6)


@settings(deadline=None)
@given(st.floats(-30, 30))
def test_the_normal_is_that_of_scipy_far_into_the_tails(value: float) -> None:
    assert normal_cdf(value) == pytest.approx(scipy.stats.norm.cdf(value), rel=1e-12, abs=0)


@settings(deadline=None)
@given(shares)
def test_normal_quantiles_are_those_of_scipy(share: float) -> None:
    assert normal_quantile(share) == pytest.approx(scipy.stats.norm.ppf(share), abs=1e-9)


@settings(deadline=None)
@given(st.floats(-60, 60), freedoms)
def test_student_is_that_of_scipy(value: float, freedom: float) -> None:
    assert student_cdf(value, freedom) == pytest.approx(
        scipy.stats.t.cdf(value, freedom), rel=1e-7, abs=1e-11
    )
    assert student_tails(value, freedom) == pytest.approx(
        2 * scipy.stats.t.sf(abs(value), freedom), rel=1e-7, abs=1e-11
    )


@settings(deadline=None)
@given(shares, freedoms)
@example(0.5000000000000001, 1.0)
def test_student_quantiles_are_those_of_scipy(share: float, freedom: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(
        scipy.stats.t.ppf(share, freedom), rel=1e-7, abs=1e-9
    )


def test_nothing_is_beyond_infinity() -> None:
    assert student_tails(math.inf, 3) == 0.0
    assert student_quantile(1.0, 3) == normal_quantile(1.0) == math.inf
    assert student_quantile(0.0, 3) == normal_quantile(0.0) == -math.inf
