"""Parts and folds: what is in them, what is between them, and what is before them."""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.splits import WalkForward
from tests.data.holed_panels import make_panel


def panel(rows: int, warm_up: int = 0) -> MarketData:
    times = np.datetime64("2024-01-01", "ns") + np.arange(rows) * np.timedelta64(1, "D")
    return MarketData(times, ["A"], ["x"], np.arange(rows).reshape(-1, 1, 1), warm_up=warm_up)


def own(part: MarketData) -> list[int]:
    """The rows of a part, by their numbers, without its warm-up."""
    return [int(number) for number in part.values[part.warm_up :, 0, 0]]


def history(part: MarketData) -> list[int]:
    return [int(number) for number in part.values[: part.warm_up, 0, 0]]


@given(
    rows=st.integers(20, 200),
    parts=st.lists(st.floats(0.1, 0.4), min_size=1, max_size=2),
    embargo=st.integers(0, 3),
    warm_up=st.integers(0, 30),
    early=st.integers(0, 5),
)
def test_parts_follow_each_other_and_the_embargo_is_between(
    rows: int, parts: list[float], embargo: int, warm_up: int, early: int
) -> None:
    data = panel(rows, early)
    assume(min(parts) * (rows - early) > embargo + 1)

    cut = data.split(*parts, embargo=embargo, warm_up=warm_up)

    assert len(cut) == len(parts) + 1
    assert (own(cut[0])[0], history(cut[0])) == (early, list(range(early)))
    assert own(cut[-1])[-1] == rows - 1
    for before, after in itertools.pairwise(cut):
        assert own(after)[0] - own(before)[-1] == embargo + 1
        begin = own(after)[0]
        assert history(after) == list(range(max(0, begin - warm_up), begin))


def test_fractions_may_name_all_parts_or_all_but_the_last() -> None:
    data = panel(100)

    assert [len(part) for part in data.split(0.8)] == [80, 20]
    assert [len(part) for part in data.split(0.6, 0.2, 0.2)] == [60, 20, 20]
    assert data.split(0.6, 0.2) == data.split(0.6, 0.2, 0.2)
    assert data.split(0.1, 0.2, 0.7) == data.split(0.1, 0.2)


def test_dates_are_those_with_which_later_parts_begin() -> None:
    data = panel(40)

    for cut in ("2024-01-11", date(2024, 1, 11), np.datetime64("2024-01-10T00:01")):
        assert own(data.split(cut)[1])[0] == 10
    assert [own(part)[0] for part in data.split("2024-01-11", "2024-01-21")] == [0, 10, 20]


@pytest.mark.parametrize("amount", ["5d", timedelta(days=5), np.timedelta64(120, "h")])
def test_amounts_may_be_times(amount: Any) -> None:
    before, after = panel(40).split(0.5, embargo=amount, warm_up=amount)

    assert own(before) == list(range(15))
    assert history(after) == [15, 16, 17, 18, 19]


def test_parts_share_memory_with_the_whole() -> None:
    data = panel(40)

    assert all(np.shares_memory(part.values, data.values) for part in data.split(0.5, warm_up=3))


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ((), {}, "pass fractions or dates to split at, got none"),
        ((1.5,), {}, "fractions between 0 and 1, or dates"),
        ((0.8, "2024-01-05"), {}, "fractions between 0 and 1, or dates"),
        ((0.6, 0.6), {}, r"fractions must add up to at most 1, got \[0\.6"),
        (
            (0.001,),
            {},
            "every part must have rows, got",
        ),
        (
            ("2030-01-01",),
            {},
            "every part must have rows, got",
        ),
        (
            ("2024-01-21", "2024-01-11"),
            {},
            "every part must have rows, got",
        ),
        ((0.5,), {"embargo": 20}, "part 1 of 2 has no rows: 40 rows in all, embargo"),
        ((0.5,), {"embargo": -1}, "expected rows of at least 0, or a duration such"),
        (
            (0.5,),
            {"warm_up": "5 parsecs"},
            "'5 parsecs'; expected a number and a unit such as '90d'",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused(parts: Any, options: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        panel(40).split(*parts, **options)


@given(
    rows=st.integers(20, 120),
    train=st.integers(1, 30),
    test=st.integers(1, 20),
    step=st.none() | st.integers(1, 25),
    embargo=st.integers(0, 5),
    warm_up=st.integers(0, 40),
    expanding=st.booleans(),
    early=st.integers(0, 4),
)
@settings(deadline=None)
def test_folds_test_after_what_they_train_on(
    rows: int, train: int, test: int, step: int | None, embargo: int, warm_up: int,
    expanding: bool, early: int,
) -> None:  # fmt: skip
    assume(train + embargo + test <= rows - early)
    data = panel(rows, early)

    folds = data.walk_forward(
        train_rows=train, test_rows=test, step=step, embargo=embargo, warm_up=warm_up,
        expanding=expanding,
    )  # fmt: skip

    ahead = step or test
    assert len(folds) == (rows - early - train - embargo - test) // ahead + 1 == len(list(folds))
    for number, fold in enumerate(folds):
        begin = early + number * ahead
        assert fold.number == number
        assert own(fold.train) == list(range(early if expanding else begin, begin + train))
        first = begin + train + embargo
        assert own(fold.test) == list(range(first, first + test))
        assert history(fold.test) == list(range(max(0, first - warm_up), first))
        assert not set(own(fold.train)) & set(own(fold.test))
    if step is None:
        tested = [row for fold in folds for row in own(fold.test)]
        assert tested == list(range(tested[0], tested[0] + len(tested)))
        assert rows - 1 - tested[-1] < test


def test_folds_may_be_cut_by_time() -> None:
    data = panel(60)

    by_time = data.walk_forward(train_rows="20d", test_rows="10d", embargo="2d", warm_up="3d")
    by_rows = data.walk_forward(train_rows=20, test_rows=10, embargo=2, warm_up=3)

    assert [(own(f.train), own(f.test), history(f.test)) for f in by_time] == [
        (own(f.train), own(f.test), history(f.test)) for f in by_rows
    ]
    assert len(by_time) == 3


def test_time_is_that_of_the_calendar_where_rows_are_missing() -> None:
    data = make_panel(rows=60, holes=0.0)
    weekdays = data.replace(
        **{
            name: getattr(data, name)[np.arange(60) % 7 < 5]
            for name in ("times", "values", "listed", "quoted", "tradable")
        },
        market={},
    )

    fold = weekdays.walk_forward(train_rows="14d", test_rows="7d")[0]

    assert (len(fold.train), len(fold.test)) == (10, 5)


def test_folds_are_a_sequence() -> None:
    folds = panel(60).walk_forward(train_rows=20, test_rows=10)

    assert isinstance(folds, WalkForward)
    assert [fold.number for fold in folds[1:]] == [1, 2, 3]
    assert folds[-1].number == 3
    with pytest.raises(IndexError):
        folds[4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train_rows": 50, "test_rows": 20},
            "too few rows for one fold: got 60, need 50 to train, 0 of",
        ),
        ({"train_rows": 0, "test_rows": 20}, "training and test part must have rows, got 0 and 20"),
        ({"train_rows": 20, "test_rows": 10, "step": 0}, "step must be at least 1 row, got 0"),
    ],
)
def test_folds_that_cannot_be_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panel(60).walk_forward(**options)


def test_a_time_shorter_than_a_row_is_a_row() -> None:
    folds = panel(60).walk_forward(train_rows=20, test_rows="1h")

    assert len(folds) == 40
    assert all(len(fold.test) == 1 for fold in folds)
