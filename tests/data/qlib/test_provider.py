from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from sekai.data.qlib import QlibProvider
from sekai.error import DataError
from tests.data.qlib.providers import DAYS, daily, let_settle, minutely, provider


def test_a_calendar_is_read_as_it_stands(tmp_path: Path) -> None:
    found = QlibProvider(daily(tmp_path / "day"))
    assert np.array_equal(found.calendar("day"), DAYS)
    assert found.calendar("day").dtype == "datetime64[ns]"
    assert found.frequencies == ("day",)


def test_instruments_have_all_their_ranges_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = QlibProvider(daily(tmp_path / "day")).instruments()
    assert list(found) == ["AAA", "BBB"]
    assert [(str(a)[:10], str(b)[:10]) for a, b in found["BBB"]] == [
        ("2020-01-04", "2020-01-06"), ("2020-01-08", "2020-01-08"),
    ]  # fmt: skip


def test_fields_are_those_of_the_symbol_and_of_the_frequency(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    (root / "features" / "aaa" / "open.1min.bin").write_bytes(b"\0" * 8)
    assert QlibProvider(root).fields("AAA") == ("$close", "$volume")


def test_features_are_the_slots_within_a_symbols_ranges_both_ends_included(tmp_path: Path) -> None:
    table = QlibProvider(daily(tmp_path / "day")).features(["BBB", "AAA"], ["$close"])
    bbb = table[table["instrument"] == "BBB"]
    assert [str(day)[8:10] for day in bbb["datetime"]] == ["04", "05", "06", "08"]
    np.testing.assert_array_equal(bbb["$close"], np.array([5, np.nan, 7, 9], np.float32))
    assert table["$close"].dtype == np.float32
    assert table["instrument"][0] == "BBB"
    assert len(table) == 14


def test_features_between_two_moments_include_both(tmp_path: Path) -> None:
    found = QlibProvider(daily(tmp_path / "day"))
    table = found.features(
        ["AAA"], ["$close", "$volume"], "2020-01-03", np.datetime64("2020-01-05")
    )
    assert table["$close"].tolist() == [3, 4, 5]
    assert table["$volume"].tolist() == [300, 400, 500]
    assert len(found.features(["AAA"], ["$close"], "2021-01-01")) == 0


def test_all_symbols_of_a_market_are_taken_if_none_are_named(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    (root / "instruments" / "some.txt").write_text("AAA\t2020-01-02\t2020-01-03\n")
    table = QlibProvider(root).features(None, ["$close"], market="some")
    assert table["$close"].tolist() == [2, 3]
    assert QlibProvider(root).markets() == ("all", "some")


def test_case_does_not_count_in_symbols_and_fields(tmp_path: Path) -> None:
    found = QlibProvider(daily(tmp_path / "day"))
    assert found.symbol("aaa") == "AAA"
    assert len(found.features(["aaa"], ["$CLOSE"])) == 10


def test_names_of_devices_have_a_folder_of_another_name(tmp_path: Path) -> None:
    root = provider(tmp_path / "x", "day", DAYS, {"_qlib_CON": {"close": (0, np.ones(10))}},
                    {"CON": [("2020-01-01", "2020-01-10")]})  # fmt: skip
    assert len(QlibProvider(root).features(["CON"], ["$close"])) == 10


def test_each_frequency_can_have_a_root_of_its_own(tmp_path: Path) -> None:
    roots = {"day": daily(tmp_path / "day"), "1min": minutely(tmp_path / "min")}
    found = QlibProvider(roots)
    assert found.frequencies == ("day", "1min")
    assert found.instruments(freq="1min").keys() == {"SH600000"}
    assert len(found.calendar("minute")) == 720
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


def test_only_the_slots_that_are_asked_for_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    found = QlibProvider(minutely(tmp_path / "min"))
    found.calendar("1min")
    sizes: list[int] = []
    read = os.read

    def spy(file: int, size: int) -> bytes:
        sizes.append(size)
        return read(file, size)

    monkeypatch.setattr(os, "read", spy)
    found.values("SH600000", "$close", 240, 250, "1min")
    assert sizes == [4, 40]


def test_slots_that_a_file_does_not_have_are_missing(tmp_path: Path) -> None:
    found = QlibProvider(daily(tmp_path / "day"))
    values = found.values("BBB", "$close", 1, 10)
    wanted = [np.nan, np.nan, 5, np.nan, 7, 8, 9, np.nan, np.nan]
    np.testing.assert_array_equal(values, np.array(wanted, np.float32))
    assert np.isnan(found.values("BBB", "$close", 0, 2)).all()
    assert found.extent("BBB", "$close") == (3, 8)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda p: p.features(["AAB"], ["$close"]),
            r"instrument 'AAB' in market 'all'; did you mean 'AAA'\?",
        ),
        (lambda p: p.features(["AAA"], ["$clos"]), r"AAA has no field '\$clos'.*'\$close'"),
        (lambda p: p.calendar("1min"), "no data of frequency '1min'; expected freq='day'"),
        (lambda p: p.instruments("al"), r"; did you mean 'all'\?"),
        (lambda p: p.calendar("hour"), "unknown frequency 'hour'; expected one such as 'day'"),
        (lambda p: p.calendar("day", future=True), "missing calendar"),
        (lambda p: p.features(["AAA"], []), "fields must be one or more without duplicates"),
        (
            lambda p: p.features(["AAA"], ["$close", "$close"]),
            "fields must be one or more without duplicates",
        ),
        (
            lambda p: p.values("a/../../x", "$close", 0, 1),
            "invalid symbol name",
        ),
        (
            lambda p: p.values("../x", "$close", 0, 1),
            "invalid symbol name",
        ),
        (
            lambda p: p.values("AAA", "$../x", 0, 1),
            r"invalid field name '\.\./x'; expected letters, digits",
        ),
        (lambda p: p.instruments("../x"), r"invalid market name '\.\./x'; expected letters"),
    ],
)
def test_what_is_not_there_is_an_error_that_names_what_is_near(
    tmp_path: Path, ask: object, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        ask(QlibProvider(daily(tmp_path / "day")))  # type: ignore[operator]


def test_moments_must_be_those_of_the_markets_clock(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    found = QlibProvider(daily(tmp_path / "day"))
    with pytest.raises(ValueError, match="time must be local, without a time zone, got 2020-01-01"):
        found.slots(datetime(2020, 1, 1, tzinfo=timezone.utc))
    with pytest.raises(ValueError, match="a date or a time"):
        found.slots("yesterday")


@pytest.mark.parametrize("lacking", ["calendars", "instruments", "features"])
def test_a_folder_without_its_parts_is_no_provider(tmp_path: Path, lacking: str) -> None:
    root = daily(tmp_path / "day")
    (root / lacking).rename(tmp_path / "away")
    with pytest.raises(DataError, match=f"has no folder {lacking}"):
        QlibProvider(root)


def test_roots_that_are_not_there_or_of_another_frequency_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing Qlib provider directory"):
        QlibProvider(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no calendar of '5min' in"):
        QlibProvider({"5min": daily(tmp_path / "day")})
    with pytest.raises(DataError, match="at least one frequency"):
        QlibProvider({})


def test_a_provider_that_is_open_sees_what_is_rewritten(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    let_settle()
    found = QlibProvider(root)
    assert len(found.calendar()) == 10
    assert "CCC" not in found.instruments()
    (root / "calendars" / "day.txt").write_text("2020-01-01\n2020-01-02\n")
    (root / "instruments" / "all.txt").write_text("CCC\t2020-01-01\t2020-01-02\n")
    assert len(found.calendar()) == 2
    assert list(found.instruments()) == ["CCC"]
