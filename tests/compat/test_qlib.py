from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai.compose
from sekai.compat import qlib
from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib
from sekai.data import MarketData, TickStore
from sekai.error import DataError, MissingExtraError, NotReadyError
from tests.data.qlib.providers import daily, minutely, minutes

DATE = np.datetime64("2020-01-02")


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qlib, "_current", None)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    data = MarketData(minutes(3), ["SH600000"], ["close"], np.ones((720, 1, 1)))
    TickStore.build(data, tmp_path / "features")
    return {
        "provider_uri_1min": minutely(tmp_path / "1min"),
        "provider_uri_day": str(daily(tmp_path / "day")),
        "feature_root_dir": tmp_path / "features",
        "feature_columns_today": ["$close"],
        "feature_columns_yesterday": ["$close_1"],
    }


def test_folders_that_were_chosen_are_those_that_are_read(config: dict[str, Any]) -> None:
    with pytest.raises(NotReadyError, match="call init_qlib first"):
        current_qlib()
    chosen = init_qlib(config)
    assert current_qlib() is chosen
    assert chosen.provider.frequencies == ("1min", "day")
    assert len(chosen.intraday("1min", ["$close"]).day("SH600000", DATE)) == 240
    today, yesterday = chosen.processed("SH600000", DATE)
    assert today.shape == yesterday.shape == (240, 1)


def test_any_one_frequency_is_enough(config: dict[str, Any]) -> None:
    chosen = init_qlib({"provider_uri_day": config["provider_uri_day"], "provider_uri_5min": None})
    assert chosen.provider.frequencies == ("day",)
    with pytest.raises(NotReadyError, match="feature_root_dir"):
        chosen.processed("SH600000", DATE)


def test_feature_columns_need_no_folder_of_features(config: dict[str, Any]) -> None:
    del config["feature_root_dir"]

    chosen = init_qlib(config)

    assert chosen.feature_columns_today == ("$close",)
    assert chosen.feature_columns_yesterday == ("$close_1",)
    assert len(chosen.intraday("1min").day("SH600000", DATE)) == 240
    with pytest.raises(NotReadyError, match="feature_root_dir.*init_qlib"):
        chosen.processed("SH600000", DATE)


@pytest.mark.parametrize("left_out", ["feature_columns_today", "feature_columns_yesterday"])
def test_any_of_the_feature_keys_can_be_left_out(config: dict[str, Any], left_out: str) -> None:
    del config[left_out]

    chosen = init_qlib(config)

    assert chosen.store is not None
    assert getattr(chosen, left_out) == ()
    with pytest.raises(NotReadyError, match=f"{left_out}.*init_qlib"):
        chosen.processed("SH600000", DATE)


def test_calling_it_again_switches_and_old_values_are_not_served(tmp_path: Path) -> None:
    closes = []
    for seed in (1, 2):
        init_qlib({"provider_uri_1min": minutely(tmp_path / str(seed), seed=seed)})
        closes.append(current_qlib().intraday().day("SH600000", DATE).column("$close"))
    assert not np.array_equal(closes[0], closes[1], equal_nan=True)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (
            {"provider_uri_1mn": "x"},
            ValueError,
            "unknown key 'provider_uri_1mn'.*'provider_uri_1min'",
        ),
        ({"provider_uri_5min": "nowhere"}, DataError, "missing Qlib provider directory 'nowhere'"),
        ({"provider_uri_5min": 5}, ValueError, "provider_uri_5min must be a folder, got 5"),
        ({"feature_root_dir": "nowhere"}, DataError, "nowhere.*neither backtest nor feature"),
        ({"feature_columns_today": ["$clos"]}, DataError, r"no column '\$clos'.*'\$close'"),
        ({"feature_columns_today": ["close"]}, ValueError, "columns such as '\\$close'"),
        ({"feature_columns_today": "$close"}, ValueError, "a list of columns"),
        ({"feature_columns_today": ["$close_1"]}, ValueError, "columns such as '\\$close'"),
        ({"feature_columns_yesterday": ["$close"]}, ValueError, "columns such as '\\$close_1'"),
        ({"feature_columns_yesterday": []}, ValueError, "a list of columns"),
        ({"feature_columns_today": ["$close", "$close"]}, ValueError, "each once"),
        ({"feature_columns_today": ["$close", "$x"]}, ValueError, "got 1 and 2"),
    ],
)
def test_a_config_that_is_wrong_is_refused_and_changes_nothing(
    config: dict[str, Any], change: dict[str, Any], error: type[Exception], said: str
) -> None:
    before = init_qlib(config)
    with pytest.raises(error, match=said):
        init_qlib({**config, **change})
    assert current_qlib() is before


def test_a_config_without_a_folder_is_refused() -> None:
    for empty in ({}, {"feature_root_dir": "x"}):
        with pytest.raises(ValueError, match="at least one of provider_uri_1min"):
            init_qlib(empty)
    with pytest.raises(TypeError, match="a mapping"):
        init_qlib("provider")  # type: ignore[arg-type]


def test_a_folder_of_another_frequency_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no calendar of 'day'.*1min"):
        init_qlib({"provider_uri_day": config["provider_uri_1min"]})


def test_pyqlib_is_asked_for_by_name_if_it_is_not_there(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "qlib", None)
    with pytest.raises(MissingExtraError, match=r"\.\[qlib\]"):
        init_qlib(config, with_pyqlib=True)
    with pytest.raises(NotReadyError):
        current_qlib()


def test_a_config_cannot_be_changed(config: dict[str, Any]) -> None:
    chosen = init_qlib(config)
    with pytest.raises(AttributeError):
        chosen.store = None  # type: ignore[misc]
    assert sekai.compose.init_qlib is init_qlib
    assert sekai.compat.init_qlib is init_qlib
    assert isinstance(chosen, QlibConfig)
