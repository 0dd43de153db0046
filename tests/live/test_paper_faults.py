"""Faults follow from a seed, or a schedule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.live.paper.faults import PaperFaults

NAMES = [
    "reject", "lose_acknowledgement", "fill_before_acknowledgement", "partial_fill", "disconnect",
    "duplicate_report", "reorder_reports",
]  # fmt: skip


def times(faults: PaperFaults, name: str, count: int = 1000) -> list[int]:
    return [number for number in range(count) if faults.happens(name, number)]


@pytest.mark.parametrize("name", NAMES)
def test_a_share_is_about_how_often_it_happens(name: str) -> None:
    assert times(PaperFaults(), name) == []
    assert times(PaperFaults(**{name: 1.0}), name) == list(range(1000))  # type: ignore[arg-type]
    some = PaperFaults(seed=1, **{name: 0.3})  # type: ignore[arg-type]
    assert 240 <= len(times(some, name)) <= 360


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_is_kept(name: str) -> None:
    assert times(PaperFaults(**{name: [7, 2]}), name) == [2, 7]  # type: ignore[arg-type]


def test_the_same_seed_fails_the_same_and_kinds_fail_apart() -> None:
    one, again = PaperFaults(seed=1, reject=0.3), PaperFaults(seed=1, reject=0.3, disconnect=0.3)

    assert times(one, "reject") == times(again, "reject")
    assert times(one, "reject") != times(PaperFaults(seed=2, reject=0.3), "reject")
    assert times(again, "reject") != times(again, "disconnect")


def test_connections_break_before_and_after_the_effect() -> None:
    faults = PaperFaults(disconnect=1.0)

    assert {faults.break_in(number) for number in range(50)} == {"before", "after"}


@given(seed=st.integers(0, 100), number=st.integers(0, 1000))
def test_draws_are_within_their_bounds(seed: int, number: int) -> None:
    faults = PaperFaults(seed=seed, partial_fill=1.0, latency_bars=3, latency_seconds=0.5)

    assert 0.0 < faults.offered(number) < 1.0
    assert 0 <= faults.rows_late(number) <= 3
    assert 0.0 <= faults.seconds_late(number) <= 0.5


def test_they_round_trip_through_json() -> None:
    faults = PaperFaults(seed=3, reject=[1, 5], disconnect=0.2, latency_bars=1)

    assert PaperFaults(**json.loads(json.dumps(faults.to_dict()))) == faults


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan"), [-1], [0.5], "often", True])
def test_what_is_no_chance_is_refused(chance: Any) -> None:
    with pytest.raises(ValueError, match="reject must be a probability or a sequence"):
        PaperFaults(reject=chance)


@pytest.mark.parametrize("late", [{"latency_bars": -1}, {"latency_seconds": float("inf")}])
def test_what_is_no_latency_is_refused(late: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="latencies must be at least 0"):
        PaperFaults(**late)
