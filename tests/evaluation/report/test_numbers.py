import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sekai.evaluation import Interval
from sekai.evaluation.report.elements import (
    FORMATS,
    bounds,
    format_number,
    format_signed,
    format_time,
)

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1.234, "number", "1.23"),
        (-1.234, "number", f"{MINUS}1.23"),
        (12345.6, "number", "12,346"),
        (0.01234, "number", "0.0123"),
        (-0.0, "number", "0.00"),
        (-0.001, "money", "0.00"),
        (0.1234, "percent", "12.3%"),
        (-0.1234, "percent", f"{MINUS}12.3%"),
        (0.000051, "percent", "0.0051%"),
        (1e-12, "percent", "0.0%"),
        (0.0000779, "p_value", "under 0.001"),
        (0.05, "p_value", "0.050"),
        (0.95, "share", "95%"),
        (0.99999, "probability", "over 99.9%"),
        (1.0, "probability", "100.0%"),
        (0.0012, "basis_points", "12.0 bp"),
        (7.25, "points", "7.2 bp"),
        (1234567.8, "money", "1,234,568"),
        (math.nan, "percent", "\N{EN DASH}"),
        (math.inf, "number", "∞"),
        (-math.inf, "money", f"{MINUS}∞"),
    ],
)
def test_numbers_are_written_for_people(value: float, kind: str, text: str) -> None:
    assert format_number(value, kind) == text


@given(value=st.floats(), kind=st.sampled_from(sorted(FORMATS)))
@example(value=1.7e304, kind="basis_points")
@example(value=-1.7e308, kind="percent")
def test_every_number_can_be_shown(value: float, kind: str) -> None:
    text = format_number(value, kind)

    assert text
    assert "nan" not in text
    assert "inf" not in text


@given(value=st.floats(allow_nan=False, min_value=0, exclude_min=True))
def test_a_sign_is_only_where_a_digit_is(value: float) -> None:
    has_digit = any(digit in format_number(value) for digit in "123456789∞")

    assert format_signed(value).startswith("+") == has_digit
    assert format_number(-value).startswith(MINUS) == has_digit


def test_bounds_have_as_many_digits_as_each_other() -> None:
    assert bounds(Interval(value=0.22, low=0.0229, high=0.42)) == "[0.02, 0.42]"
    assert bounds(Interval(value=0.0, low=0.0000229, high=0.42), "percent") == "[0.0%, 42.0%]"


def test_bounds_that_are_not_known_are_not_shown() -> None:
    assert bounds(Interval(value=1.0, low=math.nan, high=math.nan)) == ""


@pytest.mark.parametrize(
    ("created", "text"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02 03:04 UTC"),
        ("2026-01-02T03:04:05.123+00:00", "2026-01-02 03:04 UTC"),
        ("2026-01-02T03:04", "2026-01-02 03:04"),
        ("yesterday", "yesterday"),
    ],
)
def test_moments_are_written_for_people(created: str, text: str) -> None:
    assert format_time(created) == text
