"""Parity with pyqlib: files in both directions, and values of expressions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sekai.data import MarketData, QlibProvider
from tests.data.qlib.providers import DAYS, daily, minutely
from tests.data.qlib.pyqlib_python import ask, make_pyqlib_python, pyqlib_python
from tests.data.qlib.test_writing import panel

pytestmark = pytest.mark.timeout(300)

EXPRESSIONS = [
    "$close", "$close+1", "2*$close/$open", "$close**2", "Power($close,0.5)", "Ref($close,7)",
    "Greater($open,$close)", "Less($open,$close)", "Delta($close,3)", "Mean($close,5)",
    "Sum($volume,10)", "Std($close,5)", "Var($close,5)", "Max($high,5)", "Min($low,5)",
    "Abs($close-$open)", "Log($close)", "Sign($close-$open)", "$close>$open", "Ge($close,3)",
    "Lt($close,50)", "Le($close,50)", "Eq($bid,0)", "Ne($bid,0)", "And($close>50,$open>50)",
    "Or($close>50,$open>50)", "Not($close>50)", "($close>50)&($open>50)", "Ref($close,0)",
    "If($ask == 0, $bid, $ask)", "If($close>$open,1,0)", "EMA($close,5)", "EMA($close,0.3)",
    "Mean($close,0.3)", "Mean($close>Ref($close,1),5)", "Mean(Mean($close,3),3)",
    "Sum(Greater($close-Ref($close,1),0),5)/(Sum(Abs($close-Ref($close,1)),5)+1e-12)",
    "0.2 * DayCumsum($volume, '9:30', '14:29')", "Ref(DayLast($close),240)", "FFillNan($close)",
    "$close/Ref(DayLast($close),240)", "IsNull($close)", "IsInf(Log($bid))", "Std(Log($bid),5)",
    "If(IsNull($close),$open,$close)", "Mean($close,0)", "Sum($close,0)", "Std($close,0)",
    "Max($close,0)", "Delta($close,0)", "Count($close,5)", "Med($close,5)", "Mad($close,5)",
    "WMA($close,5)", "Rank($close,5)", "IdxMax($close,5)", "IdxMin($close,5)", "Slope($close,5)",
    "Resi($close,5)", "Rsquare($close,5)", "Quantile($close,5,0.8)", "Cov($close,$open,5)",
    "Corr($close,Log($volume+1),5)",
]  # fmt: skip


def check_that_pyqlib_reads_what_we_write(python: str, home: Path) -> None:
    data = panel(7, 60, 0.3).select(["AAA", "bbb"])
    data.to_qlib(home / "ours")
    theirs = ask(python, home, "features", str(home / "ours"), "day",
                 json.dumps(["$close", "$volume"]), str(home / "out.npz"))  # fmt: skip
    assert set(theirs["instrument"]) == {"AAA", "bbb"}
    for place, asset in enumerate(data.assets):
        rows = theirs["instrument"] == asset
        listed = data.listed[:, place]
        assert np.array_equal(theirs["datetime"][rows], data.times[listed])
        np.testing.assert_array_equal(theirs["values"][rows], data.values[listed, place])


def check_that_we_read_what_pyqlib_writes(python: str, home: Path) -> None:
    values = {"AAA": {"close": [0, list(range(1, 11))]}, "BBB": {"close": [4, [5, 6.5, 7]]}}
    ranges = {"AAA": [["2020-01-01", "2020-01-04"], ["2020-01-06", "2020-01-10"]],
              "BBB": [["2020-01-05", "2020-01-07"]]}  # fmt: skip
    content = {"calendar": [str(day) for day in DAYS], "ranges": ranges, "features": values}
    ask(python, home, "store", str(home / "theirs"), "day", json.dumps(content))
    data = MarketData.from_qlib(home / "theirs")
    assert data.assets == ("AAA", "BBB")
    assert np.flatnonzero(~data.listed[:, 0]).tolist() == [4]
    np.testing.assert_array_equal(
        data.field("close")[:, 1], [np.nan] * 4 + [5, 6.5, 7] + [np.nan] * 3
    )


def check_that_expressions_have_pyqlibs_values(python: str, home: Path) -> None:
    root = minutely(home / "min", days=5)
    theirs = ask(python, home, "features", str(root), "1min", json.dumps(EXPRESSIONS),
                 str(home / "expressions.npz"))  # fmt: skip
    ours = QlibProvider(root).features(None, EXPRESSIONS, freq="1min")
    assert np.array_equal(ours["datetime"], theirs["datetime"])
    for place, text in enumerate(EXPRESSIONS):
        np.testing.assert_allclose(
            ours[text], theirs["values"][:, place], rtol=2e-6, atol=1e-6, err_msg=text
        )


def check_that_both_read_the_same_rows(python: str, home: Path) -> None:
    root = daily(home / "day")
    theirs = ask(python, home, "features", str(root), "day", json.dumps(["$close", "$volume"]),
                 str(home / "rows.npz"))  # fmt: skip
    ours = QlibProvider(root).features(None, ["$close", "$volume"])
    assert ours["instrument"].tolist() == theirs["instrument"].tolist()
    assert np.array_equal(ours["datetime"], theirs["datetime"])
    np.testing.assert_array_equal(ours["$close"], theirs["values"][:, 0])


def check_that_pyqlib_follows_a_switch(python: str, home: Path) -> None:
    roots = [str(minutely(home / f"switch{seed}", seed=seed)) for seed in (1, 2)]
    configs = [json.dumps({"provider_uri_1min": root}) for root in roots]
    theirs = ask(python, home, "init", *configs, str(home / "init.npz"))
    for root, found in zip(roots, (theirs["first"], theirs["second"]), strict=True):
        ours = QlibProvider(root).features(None, ["$close"], freq="1min")
        np.testing.assert_array_equal(ours["$close"], found[:, 0])


CHECKS = [
    check_that_pyqlib_reads_what_we_write,
    check_that_we_read_what_pyqlib_writes,
    check_that_expressions_have_pyqlibs_values,
    check_that_both_read_the_same_rows,
    check_that_pyqlib_follows_a_switch,
]


def test_pyqlib_reads_what_we_write(tmp_path: Path) -> None:
    check_that_pyqlib_reads_what_we_write(pyqlib_python(), tmp_path)


def test_we_read_what_pyqlib_writes(tmp_path: Path) -> None:
    check_that_we_read_what_pyqlib_writes(pyqlib_python(), tmp_path)


def test_expressions_have_pyqlibs_values(tmp_path: Path) -> None:
    check_that_expressions_have_pyqlibs_values(pyqlib_python(), tmp_path)


def test_both_read_the_same_rows(tmp_path: Path) -> None:
    check_that_both_read_the_same_rows(pyqlib_python(), tmp_path)


def test_pyqlib_follows_a_switch(tmp_path: Path) -> None:
    check_that_pyqlib_follows_a_switch(pyqlib_python(), tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_all_of_it_holds_with_a_pyqlib_that_is_made_for_it(tmp_path: Path) -> None:
    python = make_pyqlib_python()
    for check in CHECKS:
        home = tmp_path / check.__name__
        home.mkdir()
        check(python, home)
