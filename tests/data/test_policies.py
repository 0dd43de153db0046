"""Data policies: effects, and no change without one."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, Policies
from sekai.data.problems import CHOICES
from sekai.error import DataError
from tests.data.panels import FIELDS, bars, spoilt

PLAIN = MarketData.from_frame(bars())
CLOSE, VOLUME = FIELDS.index("close"), FIELDS.index("volume")


def read(frame: pd.DataFrame, **policies: Any) -> MarketData:
    return MarketData.from_frame(frame, policies=Policies(**policies))


@pytest.mark.parametrize(
    ("policy", "field", "value"),
    [
        ("missing", "close", np.nan),
        ("missing", "volume", np.nan),
        ("prices", "close", 0.0),
        ("prices", "open", -3.0),
        ("infinite", "close", np.inf),
        ("infinite", "volume", -np.inf),
        ("volumes", "volume", -1.0),
        ("numbers", "close", "abc"),
    ],
)
def test_a_halt_takes_the_wrong_value_and_the_quote_and_nothing_else(
    policy: str, field: str, value: Any
) -> None:
    frame = spoilt(bars().astype({field: object}), 4, field, value)
    others = {"bars": "keep"} if field != "volume" else {}
    data = read(frame, **{policy: "halt", **others})

    expected = PLAIN.values.copy()
    expected[1, 1, FIELDS.index(field)] = np.nan
    assert np.array_equal(data.values, expected, equal_nan=True)
    assert [tuple(cell) for cell in np.argwhere(~data.quoted)] == [(1, 1)]
    assert np.array_equal(data.tradable, data.quoted)
    assert data.listed.all()
    (repair,) = data.repairs
    assert (repair.asset, repair.field, repair.policy) == ("BBB", field, "halt")
    with pytest.raises(DataError):
        read(frame, **others)


def test_a_halt_for_a_bar_takes_all_its_prices() -> None:
    frame = spoilt(bars(), 4, "high", 1.0)

    assert np.isnan(read(frame, bars="halt").values[1, 1, :4]).all()
    assert read(frame, bars="keep").field("high")[1, 1] == 1.0
    assert read(frame, bars="keep").quoted.all()
    assert not read(frame, bars="halt").quoted[1, 1]


@pytest.mark.parametrize(
    ("policy", "field", "value"),
    [
        ("missing", "close", np.nan),
        ("prices", "close", -1.0),
        ("infinite", "volume", np.inf),
        ("volumes", "volume", -1.0),
        ("numbers", "volume", "abc"),
        ("bars", "high", 1.0),
    ],
)
def test_dropping_a_row_takes_all_of_it(policy: str, field: str, value: Any) -> None:
    frame = spoilt(bars().astype({field: object}), 4, field, value)
    others = {"bars": "keep"} if policy == "prices" else {}
    data = read(frame, **{policy: "drop_row", **others})

    assert np.isnan(data.values[1, 1]).all()
    assert not data.quoted[1, 1]
    assert np.isfinite(data.values).all(axis=2).sum() == 35


def test_a_time_with_no_row_left_is_left_out() -> None:
    frame = bars()
    frame.loc[3:5, "close"] = np.nan

    data = read(frame, missing="drop_row")

    assert len(data) == 11
    assert np.array_equal(data.values, np.delete(PLAIN.values, 1, axis=0))


def test_a_repeated_price_can_be_seen_but_is_no_quote() -> None:
    frame = spoilt(bars(), 4, "close", np.nan)
    data = read(frame, missing="forward_fill")

    assert data.field("close")[1, 1] == PLAIN.field("close")[0, 1]
    assert not data.quoted[1, 1]
    assert not data.tradable[1, 1]
    assert data.quoted.sum() == 35
    assert [problem.policy for problem in data.repairs] == ["forward_fill"]


def test_a_repeated_volume_leaves_the_quote_and_no_order_can_be_filled() -> None:
    frame = spoilt(bars(), 4, "volume", np.nan)
    data = read(frame, missing="forward_fill")

    assert data.field("volume")[1, 1] == PLAIN.field("volume")[0, 1]
    assert data.quoted.all()
    assert [tuple(cell) for cell in np.argwhere(~data.tradable)] == [(1, 1)]


def test_repeating_ends_at_its_limit_and_never_looks_ahead() -> None:
    frame = bars()
    frame.loc[frame["symbol"] == "AAA", "close"] = [np.nan, 5, np.nan, np.nan, np.nan, *[6] * 7]
    data = read(frame, missing="forward_fill", fill_limit=2, bars="keep")

    shown = [None if np.isnan(value) else value for value in data.field("close")[:7, 0]]
    assert shown == [None, 5, 5, 5, None, 6, 6]
    assert list(data.quoted[:7, 0]) == [False, True, False, False, False, True, True]
    assert {problem.policy for problem in data.repairs if problem.kind == "missing"} == {
        "forward_fill", "halt",
    }  # fmt: skip


def test_what_was_wrong_is_not_repeated() -> None:
    frame = spoilt(bars(), 4, "close", np.inf)
    frame.loc[7, "close"] = np.nan

    for way in ("halt", "drop_row"):
        data = read(frame, missing="forward_fill", infinite=way, bars="keep")
        assert data.field("close")[2, 1] == PLAIN.field("close")[0, 1]


def test_other_fields_have_a_policy_of_their_own() -> None:
    frame = bars().assign(mood=1.0)
    frame.loc[4, "mood"] = np.nan

    with pytest.raises(DataError, match="mood"):
        read(frame, missing="halt")
    kept = read(frame, missing_other="keep")
    filled = read(frame, missing_other="forward_fill")

    assert np.isnan(kept.field("mood")[1, 1])
    assert filled.field("mood")[1, 1] == 1.0
    for data in (kept, filled):
        assert data.tradable.all(), "a price without a mood is a price"
        assert len(data.repairs) == 1


def test_the_first_or_the_last_of_two_rows_is_kept() -> None:
    frame = bars()
    again = frame.iloc[[4]].assign(volume=7.0)
    both = pd.concat([frame.iloc[:5], again, frame.iloc[5:]])

    assert read(both, duplicates="first") == PLAIN
    last = read(both, duplicates="last")
    assert last.field("volume")[1, 1] == 7.0
    assert len(last.repairs) == 1
    with pytest.raises(DataError, match="duplicate BBB at 2020-01-02: duplicate timestamp"):
        read(both)


def test_calendars_are_joined_or_cut_or_repeated() -> None:
    frame = bars().drop(index=[4, 7])

    with pytest.raises(DataError, match="BBB at 2020-01-02 to 2020-01-03"):
        read(frame)
    union = read(frame, calendars="union")
    common = read(frame, calendars="intersection")
    filled = read(frame, calendars="forward_fill")

    assert np.isnan(union.values[1:3, 1]).all()
    assert union.listed.all()
    assert union.quoted.sum() == 34
    assert common == PLAIN.replace(
        times=np.delete(PLAIN.times, [1, 2]), values=np.delete(PLAIN.values, [1, 2], 0),
        **{name: np.delete(getattr(PLAIN, name), [1, 2], 0)
           for name in ("listed", "quoted", "tradable")},
        frequency=None,
    )  # fmt: skip
    assert (filled.field("close")[1:3, 1] == PLAIN.field("close")[0, 1]).all()
    assert np.isnan(filled.field("volume")[1:3, 1]).all(), "nothing was traded that is known of"
    assert np.array_equal(filled.quoted, union.quoted)


def test_an_asset_is_given_up_after_as_many_days_as_the_user_says() -> None:
    frame = bars(60)
    frame = frame[(frame["symbol"] != "BBB") | (frame["time"] < "2020-01-11")]

    for days, listed in ((20, 29), (5, 14), (None, 60)):
        data = read(frame, delist_after=days)
        assert data.listed[:, 1].sum() == listed
        assert data.quoted[:, 1].sum() == 10
        assert [one.kind for one in data.repairs] == (["delisting"] if days else [])


def test_a_price_is_not_repeated_after_a_delisting() -> None:
    frame = bars(60)
    gone = (frame["symbol"] == "BBB") & frame["time"].between("2020-01-11", "2020-02-20")
    data = read(frame[~gone], calendars="forward_fill", delist_after=5)

    assert np.isfinite(data.field("close")[:14, 1]).all()
    assert np.isnan(data.field("close")[14:51, 1]).all()
    assert list(np.flatnonzero(data.listed[:, 1])) == [*range(14), *range(51, 60)]


def test_a_price_is_repeated_whether_the_asset_returns_or_not() -> None:
    returns = bars().drop(index=[4, 7])
    early = read(returns[returns["time"] < "2020-01-04"], calendars="forward_fill")
    whole = read(returns, calendars="forward_fill")

    assert np.isfinite(early.field("close")).all()
    assert np.array_equal(early.values, whole.values[:3], equal_nan=True)


def test_gaps_can_be_allowed() -> None:
    frame = bars(60)
    frame = frame[(frame["time"] < "2020-01-10") | (frame["time"] > "2020-02-10")]

    with pytest.raises(DataError, match="no row of any asset for 33 days"):
        read(frame)
    assert len(read(frame, gaps="allow").repairs) == 1
    assert not len(read(frame, longest_gap=timedelta(days=40)).repairs)


def test_assets_without_a_quote_can_be_left_out() -> None:
    frame = bars()
    frame.loc[frame["symbol"] == "BBB", "close"] = np.nan
    data = read(frame, missing="halt", empty="drop")

    assert data == PLAIN.select(["AAA", "CCC"])
    with pytest.raises(DataError, match="empty BBB: no quotes"):
        read(frame, missing="halt")
    with pytest.raises(DataError, match="empty: no rows or assets are left after the policies"):
        read(frame[frame["symbol"] == "BBB"], missing="halt", empty="drop")


def test_rows_without_a_key_can_be_dropped() -> None:
    frame = bars()
    frame.loc[35, "symbol"] = None

    data = read(frame, keys="drop_row")

    assert data.quoted.sum() == 35
    assert [problem.found for problem in data.repairs] == ["missing asset"]


def test_what_is_no_policy_is_refused() -> None:
    for name, choices in CHOICES.items():
        assert getattr(Policies(), name) == choices[0]
        with pytest.raises(ValueError, match=f"{name} must be one of"):
            replace(Policies(), **{name: "guess"})  # type: ignore[arg-type]
    for bad in ({"fill_limit": 0}, {"delist_after": 0}, {"longest_gap": timedelta(0)}):
        with pytest.raises(ValueError, match="must be"):
            Policies(**bad)


@given(
    holes=st.lists(st.tuples(st.integers(0, 35), st.sampled_from(FIELDS)), max_size=10),
    gone=st.lists(st.integers(0, 35), max_size=6),
    cut=st.integers(1, 12),
    missing=st.sampled_from(["halt", "forward_fill", "drop_row"]),
    calendars=st.sampled_from(["union", "forward_fill"]),
)
@settings(deadline=None, max_examples=60)
def test_what_is_read_up_to_a_time_does_not_depend_on_what_comes_after(
    holes: list[tuple[int, str]], gone: list[int], cut: int, missing: str, calendars: str
) -> None:
    frame = bars()
    for row, field in holes:
        frame.loc[row, field] = np.nan
    frame = frame.drop(index=gone)
    policies = {"missing": missing, "calendars": calendars, "empty": "drop"}
    stop = pd.Timestamp("2020-01-01") + pd.Timedelta(days=cut)
    try:
        early = read(frame[frame["time"] < stop], **policies)
    except DataError:
        return  # nothing there yet
    whole = read(frame, **policies).select(early.assets)
    whole = whole.rows(0, int((whole.times < np.datetime64(stop)).sum()))
    # A row that only assets unknown so far have is there for them alone.
    known = [row for row, time in enumerate(whole.times) if time in set(early.times)]

    assert len(known) == len(early)
    assert np.array_equal(whole.values[known], early.values, equal_nan=True)
    for mask in ("listed", "quoted", "tradable"):
        assert np.array_equal(getattr(whole, mask)[known], getattr(early, mask))


@pytest.mark.parametrize("policies", ["halt", {"missing": "halt"}])
def test_policies_of_another_type_are_refused_with_their_spelling(policies: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a Policies such as Policies\(missing='halt'\)"):
        MarketData.from_frame(bars(), policies=policies)


def test_the_table_of_the_document_has_every_policy_with_its_values() -> None:
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    table = text.partition("### Policies")[2].partition("\n###")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", table, re.MULTILINE)

    assert {name: tuple(values.split(", ")) for name, values in rows} == CHOICES
