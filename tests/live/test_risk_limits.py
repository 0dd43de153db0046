"""Risk limits are validated, and round-trip through files."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.risk import RiskLimits

NAMES = [field.name for field in fields(RiskLimits)]
values = st.none() | st.floats(1e-6, 1e9) | st.integers(1, 10**6)


@given(found=st.dictionaries(st.sampled_from(NAMES), values))
def test_they_round_trip_through_json(found: dict[str, Any]) -> None:
    limits = RiskLimits(**found)

    assert RiskLimits.from_dict(json.loads(json.dumps(limits.to_dict()))) == limits


def test_they_round_trip_through_toml() -> None:
    tomli_w, tomllib = pytest.importorskip("tomli_w"), pytest.importorskip("tomllib")
    limits = RiskLimits(max_order_units=None, price_collar=0.03, max_open_orders=4)

    assert RiskLimits.from_dict(tomllib.loads(tomli_w.dumps(limits.to_dict()))) == limits


def test_all_but_one_are_on_unless_switched_off() -> None:
    off = [name for name in NAMES if getattr(RiskLimits(), name) is None]

    assert off == ["max_delay_seconds"]


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "5", True])
def test_what_is_no_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_drawdown must be a number above 0 or None, got"):
        replace(RiskLimits(), max_drawdown=limit)


def test_a_limit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="RiskLimits has no key 'max_orders'; did you mean"):
        RiskLimits.from_dict({"max_orders": 3, "size": 2, "max_drawdown": 0.1})
