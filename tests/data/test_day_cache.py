from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.data import DayCache


@given(
    bounds=st.tuples(st.integers(0, 50), st.integers(0, 6)),
    puts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=40),
)
def test_the_bounds_hold_and_what_is_entries_was_used_last(
    bounds: tuple[int, int], puts: list[tuple[int, int]]
) -> None:
    cache = DayCache(*bounds)
    order: list[int] = []
    sizes: dict[int, int] = {}
    for key, size in puts:
        cache.put(key, f"{key}/{size}", size)
        order = [other for other in order if other != key]
        if size <= bounds[0] and bounds[1]:
            order.append(key)
            sizes[key] = size
        while sum(sizes[other] for other in order) > bounds[0] or len(order) > bounds[1]:
            order.pop(0)
        assert cache.nbytes == sum(sizes[other] for other in order) <= bounds[0]
        assert len(cache) == len(order) <= bounds[1]
        assert {other for other in range(10) if other in cache._entries} == set(order)


def test_looking_at_a_value_keeps_it_for_longer() -> None:
    cache = DayCache(max_entries=2)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    assert cache.get("a") == 1
    cache.put("c", 3, 1)
    assert cache.get("b") is None
    assert cache.get("a") == 1


def test_clearing_and_pickling_leave_the_bounds_alone() -> None:
    cache = DayCache(100, 7)
    cache.put("a", 1, 60)
    again = pickle.loads(pickle.dumps(cache))
    assert (again.max_bytes, again.max_entries, len(again)) == (100, 7, 0)
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_bounds_below_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes must be at least 0, got -1"):
        DayCache(-1)
    with pytest.raises(ValueError, match="max_entries"):
        DayCache(1, -1)
