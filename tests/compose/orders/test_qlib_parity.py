"""Parity with Qlib's exchange: equal fills and costs in every tick."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.compose import Order, SingleAssetOrderExecution
from sekai.data.market_data import MarketData
from tests.compose.orders import qlib_reference
from tests.compose.orders.days import times
from tests.data.qlib.pyqlib_python import make_pyqlib_python, pyqlib_python

COSTS = {"deal_price": "$close", "open_cost": 0.0005, "close_cost": 0.0015, "min_cost": 5.0}
EXCHANGES: list[dict[str, Any]] = [
    {"trade_unit": None},
    {"trade_unit": 100},
    {"trade_unit": 100, "impact_cost": 0.1},
    {"trade_unit": 100, "limit_threshold": 0.001},
    {"trade_unit": 100, "volume_threshold": {"all": ["current", "0.2*$volume"]}},
    {"trade_unit": None, "volume_threshold": {"all": ["cum", "0.1*DayCumsum($volume)"]}},
    {
        "trade_unit": None,
        "volume_threshold": {
            "buy": ["current", "0.05*$volume"],
            "sell": ["current", "0.3*$volume"],
        },
    },
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three days of minutes, some of them suspended, and days, which Qlib wants too."""
    root = tmp_path_factory.mktemp("qlib")
    rng = np.random.default_rng(4)
    stamps = np.concatenate([times(240, f"2020-01-0{day}") for day in (2, 3, 4)])
    close = 50 * np.exp(np.cumsum(rng.normal(0, 0.001, len(stamps))))
    volume = rng.integers(100, 3000, len(stamps)).astype(float)
    change = np.diff(close, prepend=close[0]) / close
    values = np.stack([close, volume, np.full(len(close), 1.25), change], axis=1)
    days = MarketData(
        np.array(["2020-01-02", "2020-01-03", "2020-01-04"], "datetime64[ns]"), ["AAA"],
        ["close", "volume", "factor", "change"], values[239::240, None, :],
    )  # fmt: skip
    values[[245, 246, 247, 300]] = np.nan
    minutes = MarketData(stamps, ["AAA"], days.fields, values[:, None, :])
    minutes.to_qlib(root / "1min", freq="1min")
    days.to_qlib(root / "day", freq="day")
    return {"1min": str(root / "1min"), "day": str(root / "day")}


def cases() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "amounts": (rng.dirichlet(np.ones(8)) * 20_000).round(2).tolist(),
            "direction": direction,
            "exchange": {**COSTS, **exchange},
            # Who sells with cash holds nothing to sell in Qlib.
            "cash": cash,
        }
        for exchange in EXCHANGES
        for direction, cash in ((0, None), (1, None), (1, 400_000.0))
    ]


def by_qlib(python: str, folders: dict[str, str], home: Path) -> list[Any]:
    """The fills of all cases as a Python that has pyqlib finds them."""
    asked = json.dumps({"folders": folders, "cases": cases()})
    program = [python, str(Path(qlib_reference.__file__))]
    environment = {**os.environ, "HOME": str(home)}
    answer = subprocess.run(
        program, input=asked, capture_output=True, text=True, env=environment, cwd=home, check=False
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: list[Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(300)
def test_fills_and_costs_are_those_of_qlib(folders: dict[str, str], tmp_path: Path) -> None:
    check_fills(folders, by_qlib(pyqlib_python(), folders, tmp_path))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_they_are_with_a_qlib_that_is_made_for_it(folders: dict[str, str], tmp_path: Path) -> None:
    check_fills(folders, by_qlib(make_pyqlib_python(), folders, tmp_path))


def check_fills(folders: dict[str, str], found: list[Any]) -> None:
    for case, theirs in zip(cases(), found, strict=True):
        order = Order("AAA", sum(case["amounts"]), case["direction"],
                      qlib_reference.START, qlib_reference.END)  # fmt: skip
        simulator = SingleAssetOrderExecution(
            order, {"time_per_step": "30min"}, case["exchange"],
            {f"provider_uri_{freq}": root for freq, root in folders.items()}, case["cash"],
        )  # fmt: skip
        for amount in case["amounts"]:
            if not simulator.done():
                simulator.step(min(amount, simulator.position))
        ours = simulator.fills
        place = {str(time)[:19].replace("T", " "): row for row, time in enumerate(ours["time"])}
        filled, cost = np.zeros(len(ours)), np.zeros(len(ours))
        for time, amount, paid in theirs:
            filled[place[time]] += amount
            cost[place[time]] += np.nan_to_num(paid)
        assert ours["filled"] == pytest.approx(filled, rel=1e-9, abs=1e-9), case
        assert ours["cost"] == pytest.approx(cost, rel=1e-6, abs=1e-6), case
