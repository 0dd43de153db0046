"""Problems of data are reported with asset, field and time."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, Policies, Problem, Problems, inspect
from sekai.data.problems import HINTS
from sekai.error import DataError, SekaiError
from tests.data.panels import ASSETS, bars, spoilt, stamp

ROWS = 12
WRONG = {
    "missing": (np.nan, ("open", "high", "low", "close", "volume")),
    "infinite": (np.inf, ("open", "high", "low", "close", "volume")),
    "price": (0.0, ("open", "high", "low", "close")),
    "volume": (-1.0, ("volume",)),
}
Place = tuple[str, str, str | None, np.datetime64]


def places(problems: Any) -> set[Place]:
    """Every cell that is at fault: kind, asset, field and time."""
    day = np.timedelta64(1, "D")
    return {
        (problem.kind, problem.asset, problem.field, problem.time + day * row)
        for problem in problems
        for row in range(problem.count)
    }


@st.composite
def injuries(draw: st.DrawFn) -> tuple[pd.DataFrame, set[Place]]:
    """A table with some cells spoilt and some rows doubled, and what is to be found in it."""
    frame = bars(ROWS, seed=draw(st.integers(0, 99)))
    expected: set[Place] = set()
    cells = st.tuples(st.integers(0, len(frame) - 1), st.sampled_from(sorted(WRONG)))
    for row, kind in draw(st.lists(cells, max_size=12, unique_by=lambda cell: cell[0])):
        value, fields = WRONG[kind]
        field = draw(st.sampled_from(fields))
        if kind == "price":
            value = draw(st.sampled_from([0.0, -1e-9, -50.0]))
        frame.loc[row, field] = value
        expected.add((kind, *key(frame, row, field)))
    doubled = draw(st.lists(st.integers(0, len(frame) - 1), max_size=4, unique=True))
    expected |= {("duplicate", *key(frame, row, None)) for row in doubled}
    again = frame.iloc[doubled]
    return pd.concat([frame, again]).sort_values("time", kind="stable"), expected


def key(frame: pd.DataFrame, row: int, field: str | None) -> tuple[str, str | None, np.datetime64]:
    time = np.datetime64(frame["time"].iloc[row], "ns")
    return str(frame["symbol"].iloc[row]), field, time


@given(injury=injuries())
@settings(max_examples=150, deadline=None)
def test_every_injury_is_found_where_it_is(injury: tuple[pd.DataFrame, set[Place]]) -> None:
    frame, expected = injury
    found = inspect(frame)

    # A price that is wrong may contradict its bar as well; that is for another test.
    assert places(p for p in found if p.kind not in ("bar", "empty")) == expected
    if expected:
        with pytest.raises(DataError) as caught:
            MarketData.from_frame(frame)
        assert list(caught.value.problems) == list(found)
    else:
        assert MarketData.from_frame(frame).quoted.all()


@given(first=st.integers(0, ROWS - 2), second=st.integers(1, ROWS - 1), asset=st.integers(0, 2))
@settings(deadline=None)
def test_rows_out_of_order_are_found(first: int, second: int, asset: int) -> None:
    frame = bars(ROWS)
    one, other = (min(first, second) * 3 + asset, max(first, second) * 3 + asset)
    order = np.arange(len(frame))
    order[[one, other]] = order[[other, one]]
    shuffled = frame.iloc[order]
    found = inspect(shuffled)

    if one == other:
        assert not len(found)
        return
    assert {problem.kind for problem in found} == {"unsorted"}
    assert {problem.asset for problem in found} == {ASSETS[asset]}
    assert frame["time"].iloc[one] in {pd.Timestamp(problem.time) for problem in found}
    mended = MarketData.from_frame(shuffled, policies=Policies(unsorted="sort"))
    assert mended == MarketData.from_frame(frame)
    assert list(mended.repairs) == [
        Problem(**{**as_dict(problem), "policy": "sort"}) for problem in found
    ]


def as_dict(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in Problem.__slots__}


@given(gone=st.lists(st.integers(0, 3 * ROWS - 1), max_size=12, unique=True))
@settings(deadline=None)
def test_rows_that_an_asset_lacks_between_its_first_and_last_are_found(gone: list[int]) -> None:
    frame = bars(ROWS)
    left = frame.drop(index=gone)
    times = sorted(left["time"].unique())
    spans = left.groupby("symbol")["time"].agg(["min", "max"])
    expected = {
        ("calendar", asset, None, np.datetime64(time, "ns"))
        for asset, span in spans.iterrows()
        for time in times
        if span["min"] < time < span["max"]
        and not ((left["time"] == time) & (left["symbol"] == asset)).any()
    }

    found: set[Place] = set()
    for problem in inspect(left):
        assert problem.kind == "calendar"
        first = times.index(pd.Timestamp(problem.time))
        run = times[first : first + problem.count]
        assert np.datetime64(run[-1], "ns") == problem.until
        found |= {("calendar", str(problem.asset), None, np.datetime64(time, "ns")) for time in run}

    assert found == expected


def test_a_bar_that_contradicts_itself_is_found() -> None:
    frame = spoilt(bars(), 4, "high", 1.0)
    frame.loc[8, "close"] = 1000.0

    found = inspect(frame)

    assert places(found) == {
        ("bar", "BBB", "high", stamp("2020-01-02")),
        ("bar", "CCC", "close", stamp("2020-01-03")),
    }


def test_rounding_is_no_contradiction() -> None:
    frame = bars()
    frame["high"] = frame["close"] * (1 - 1e-12)
    frame["open"] = frame["low"]

    assert not len(inspect(frame))


def test_text_where_a_number_should_be_is_found() -> None:
    frame = bars().astype({"close": object})
    frame.loc[5, "close"] = "12,50"

    problem, *rest = inspect(frame)

    assert (problem.kind, problem.asset, problem.field) == ("number", "CCC", "close")
    assert problem.time == stamp("2020-01-02")
    assert problem.found == "'12,50'"
    assert not rest


def test_rows_without_a_time_or_an_asset_are_found() -> None:
    frame = bars()
    frame.loc[3, "time"] = pd.NaT
    frame.loc[7, "symbol"] = None
    frame.loc[8, "symbol"] = " "

    found = [problem for problem in inspect(frame) if problem.kind == "key"]

    assert [problem.found for problem in found] == [
        "missing time",
        "missing asset",
        "missing asset",
    ]
    assert found[0].asset == "AAA"
    assert found[1].time == stamp("2020-01-03")


def test_an_asset_without_a_single_quote_is_found() -> None:
    frame = bars()
    frame.loc[frame["symbol"] == "BBB", "close"] = np.nan

    assert "BBB" in {problem.asset for problem in inspect(frame) if problem.kind == "empty"}
    missing = inspect(bars(), assets=["AAA", "ZZZ"])
    assert [(problem.kind, problem.asset) for problem in missing] == [("empty", "ZZZ")]


def test_a_gap_in_time_is_found() -> None:
    frame = bars(60)
    frame = frame[(frame["time"] < "2020-01-10") | (frame["time"] > "2020-02-10")]

    (problem,) = inspect(frame)

    assert problem.kind == "gap"
    assert (problem.time, problem.until) == (stamp("2020-01-09"), stamp("2020-02-11"))


def test_columns_that_hold_no_numbers_are_found() -> None:
    frame = bars().assign(exchange="NYSE", day=pd.Timestamp("2020-01-01"))

    found = inspect(frame)

    assert [(problem.kind, problem.field) for problem in found] == [
        ("column", "day"), ("column", "exchange"),
    ]  # fmt: skip
    ignored = MarketData.from_frame(frame, policies=Policies(columns="ignore"))
    assert ignored == MarketData.from_frame(bars())
    assert len(ignored.repairs) == 2


def test_neighbouring_rows_are_one_problem() -> None:
    frame = bars()
    frame.loc[(frame["symbol"] == "AAA") & (frame["time"] < "2020-01-05"), "close"] = np.nan

    (problem,) = inspect(frame)

    assert problem.count == 4
    assert problem.until == stamp("2020-01-04")
    assert str(problem) == "missing AAA close at 2020-01-01 to 2020-01-04 (4 rows): missing value"


def test_an_error_lists_the_first_problems_and_carries_all() -> None:
    frame = bars(100)
    frame["close"] = np.where(frame.index % 2, np.nan, frame["close"])

    with pytest.raises(DataError) as caught:
        MarketData.from_frame(frame)
    error = caught.value

    assert isinstance(error, ValueError)
    assert isinstance(error, SekaiError)
    assert len(error.problems) == 150
    assert len(str(error).splitlines()) == 11
    assert "150 x missing: Policies(missing='halt')" in str(error)
    assert "missing AAA close at 2020-01-02: missing value" in str(
        pickle.loads(pickle.dumps(error))
    )
    assert list(pickle.loads(pickle.dumps(error)).problems) == list(error.problems)


def test_problems_are_a_sequence() -> None:
    problems = Problems([Problem("file", "a"), *inspect(spoilt(bars(), 0, "close", np.nan))])

    assert problems[-1].kind == "missing"
    assert [problem.kind for problem in problems[0:2]] == ["file", "missing"]
    assert problems.counts == {"file": 1, "missing": 1}
    assert problems == list(problems)
    assert str(Problems()) == "no problems"
    with pytest.raises(IndexError, match="index 2 is out of range for 2 problems"):
        problems[2]


def test_every_kind_says_what_can_be_done() -> None:
    for kind, hint in HINTS.items():
        assert hint, kind
        for name, choice in policies_in(hint):
            replace(Policies(), **{name: choice})  # type: ignore[arg-type]


def policies_in(hint: str) -> list[tuple[str, str]]:
    import re

    return re.findall(r"Policies\((\w+)='(\w+)'\)", hint)
