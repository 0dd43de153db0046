from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import MarketData, Policies
from sekai.error import DataError
from tests.data.qlib.providers import DAYS, daily, minutely, provider


def test_a_listed_slot_without_a_value_is_a_halt_and_others_are_not_listed(tmp_path: Path) -> None:
    data = MarketData.from_qlib(daily(tmp_path / "day"))
    place = data.asset("BBB")
    assert np.flatnonzero(data.listed[:, place]).tolist() == [3, 4, 5, 7]
    assert np.flatnonzero(data.quoted[:, place]).tolist() == [3, 5, 7]
    assert np.array_equal(data.tradable, data.quoted)
    assert np.isnan(data.field("close")[6, place])
    assert len(data.repairs) == 0


def test_well_known_fields_come_first_and_symbols_as_the_file_has_them(tmp_path: Path) -> None:
    one = {name: (0, np.ones(10)) for name in ("aaa", "volume", "close", "open")}
    root = provider(tmp_path / "x", "day", DAYS, {"Z": one, "B": one})
    data = MarketData.from_qlib(root)
    assert data.fields == ("open", "close", "volume", "aaa")
    assert data.assets == ("Z", "B")


def test_symbols_fields_and_moments_are_chosen(tmp_path: Path) -> None:
    data = MarketData.from_qlib(
        daily(tmp_path / "day"), symbols=["bbb", "AAA"], start="2020-01-04", end="2020-01-06",
        fields={"close": "$close", "growth": "$close / Ref($close, 1)"},
        policies=Policies(missing_other="keep"),
    )  # fmt: skip
    assert data.assets == ("BBB", "AAA")
    assert data.fields == ("close", "growth")
    np.testing.assert_allclose(data.field("growth")[:, 1], [4 / 3, 5 / 4, 6 / 5], rtol=1e-6)
    assert str(data.times[0])[:10] == "2020-01-04"


def test_names_of_fields_may_have_a_dollar(tmp_path: Path) -> None:
    data = MarketData.from_qlib(daily(tmp_path / "day"), fields=["$close", "volume"])
    assert data.fields == ("close", "volume")


def test_policies_deal_with_what_is_wrong(tmp_path: Path) -> None:
    close = np.arange(1.0, 11.0)
    close[4] = -1
    root = provider(tmp_path / "x", "day", DAYS, {"A": {"close": (0, close)}})
    with pytest.raises(DataError, match=r"1 x price.*Policies\(prices='halt'\)"):
        MarketData.from_qlib(root)
    data = MarketData.from_qlib(root, policies=Policies(prices="halt"))
    assert not data.quoted[4, 0]
    assert data.listed.all()
    assert data.repairs[0].file == str(root)


def test_a_hole_in_one_field_alone_is_a_problem(tmp_path: Path) -> None:
    hole = np.ones(10)
    hole[2] = np.nan
    fields = {"close": (0, np.ones(10)), "volume": (0, hole)}
    root = provider(tmp_path / "x", "day", DAYS, {"A": fields})
    with pytest.raises(DataError, match="missing A volume"):
        MarketData.from_qlib(root)
    assert not MarketData.from_qlib(root, policies=Policies(missing="halt")).quoted[2, 0]


def test_halts_can_show_the_last_price(tmp_path: Path) -> None:
    data = MarketData.from_qlib(
        daily(tmp_path / "day"), policies=Policies(calendars="forward_fill")
    )
    assert data.field("close")[4, 1] == 5
    assert not data.quoted[4, 1]
    assert np.isnan(data.field("close")[6, 1])


def test_a_field_that_only_some_have_is_a_problem(tmp_path: Path) -> None:
    one = (0, np.ones(10))
    root = provider(
        tmp_path / "x", "day", DAYS, {"A": {"close": one, "open": one}, "B": {"close": one}}
    )
    with pytest.raises(DataError, match=r"column open: missing field \$open of B, which other"):
        MarketData.from_qlib(root)
    assert MarketData.from_qlib(root, policies=Policies(columns="ignore")).fields == ("close",)


def test_an_instrument_without_a_folder_is_left_out_only_if_asked(tmp_path: Path) -> None:
    root = daily(tmp_path / "day")
    path = root / "instruments" / "all.txt"
    path.write_text(f"{path.read_text()}DDD\t2020-01-01\t2020-01-02\n")
    with pytest.raises(DataError, match="empty DDD: instrument without a folder"):
        MarketData.from_qlib(root)
    data = MarketData.from_qlib(root, policies=Policies(empty="drop"))
    assert data.assets == ("AAA", "BBB")
    assert data.repairs[0].asset == "DDD"


def test_minutes_need_a_time_zone(tmp_path: Path) -> None:
    root = minutely(tmp_path / "min")
    with pytest.raises(DataError, match="time_zone"):
        MarketData.from_qlib(root, freq="1min", fields=["close"])
    data = MarketData.from_qlib(root, freq="1min", fields=["close"], timezone="Asia/Shanghai")
    assert str(data.times[0]) == "2020-01-01T01:30:00.000000000"
    assert data.frequency.name == "1min"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"start": "2021-01-01"}, DataError, "no rows with start=2021-01-01"),
        ({"symbols": "AAA"}, TypeError, "a list of names"),
        ({"fields": "close"}, TypeError, "a list of names"),
        ({"asset": "x"}, TypeError, "unexpected keyword argument 'asset'"),
        ({"symbols": ["AAC"]}, DataError, "did you mean 'AAA'"),
        ({"fields": ["closed"]}, DataError, "did you mean"),
    ],
)
def test_what_cannot_be_taken_is_an_error(
    tmp_path: Path, options: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        MarketData.from_qlib(daily(tmp_path / "day"), **options)


def test_sectors_are_taken_from_beside(tmp_path: Path) -> None:
    folder = daily(tmp_path / "day")
    data = MarketData.from_qlib(folder, sectors={"AAA": "Tech"})
    assert dict(data.sectors) == {"AAA": "Tech"}
    with pytest.raises(ValueError, match="sectors: unknown asset 'AAB'; did you mean 'AAA'"):
        MarketData.from_qlib(folder, sectors={"AAB": "Tech"})
