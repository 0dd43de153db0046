"""A thousand orders on real minutes of nine symbols, whose holes and halts are their own."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import sekai
from sekai.compose import TWAP, VWAP, Order, OrderDir, run_orders
from sekai.data import MarketData, Policies
from tests.data.panels import real

FILE = "minute_oanda/oanda_1m_9symbols_2020Q1.csv.gz"


@pytest.fixture(scope="module")
def minutes() -> MarketData:
    return MarketData.from_csv(real(FILE), timezone="UTC", policies=Policies(calendars="union"))


@pytest.fixture(scope="module")
def orders(minutes: MarketData) -> list[Order]:
    rng = np.random.default_rng(0)
    dates = np.unique(minutes.times.astype("datetime64[D]"))
    dates = dates[np.is_busday(dates)][1:-1]
    drawn = []
    for place in range(1000):
        date = str(rng.choice(dates))
        start = f"{date} 08:{rng.integers(30, 60)}"
        asset = minutes.assets[place % len(minutes.assets)]
        drawn.append(Order(asset, 100.0, OrderDir(place % 2), start, f"{date} 12:30"))
    return drawn


def test_a_thousand_orders_take_seconds_and_add_up(
    minutes: MarketData, orders: list[Order]
) -> None:
    begin = time.process_time()

    report = run_orders(orders, minutes, TWAP(), progress=False, vol_threshold=0.5)

    assert time.process_time() - begin < 10.0
    reported = report.metrics
    assert len(reported) == 1000
    assert all(np.isfinite(reported[name]).all() for name in ("ffr", "pa", "trade_value", "cost"))
    filled = np.bincount(report.fills["order"], report.fills["filled"], 1000)
    assert filled == pytest.approx(reported["deal_amount"])
    assert filled + reported["position"] == pytest.approx(100.0)
    assert 0.9 < reported["ffr"].mean() <= 1.0


def test_without_caps_only_the_suspended_are_not_filled(
    minutes: MarketData, orders: list[Order]
) -> None:
    report = run_orders(orders[:200], minutes, VWAP(data=minutes), progress=False)

    unfilled = np.flatnonzero(report.metrics["position"] > 0)
    for place in unfilled:
        last = report.fills[report.fills["order"] == place][-1]
        assert np.isnan(last["price"]), "the last minute fills the rest where there is a price"
    assert len(unfilled) < 60


def test_an_experiment_on_real_minutes_trains_evaluates_and_reports(tmp_path: Path) -> None:
    (tmp_path / "fx.toml").write_text(
        f"""
        [env]
        id = "OrderExecution-v0"
        [data]
        source = "{real(FILE)}"
        timezone = "UTC"
        policies = {{calendars = "union"}}
        split = [0.7, 0.3]
        [train]
        steps = 64
        n_envs = 2
        [evaluate]
        seeds = 8
        sensitivity = false
        """
    )

    result = sekai.run_experiment(tmp_path / "fx.toml", runs=tmp_path / "runs")

    evaluation = result.evaluation
    assert evaluation is not None
    assert {"twap", "vwap"} & set(evaluation.baselines)
    assert "baseline_left_out" in [flag.name for flag in evaluation.flags]
    assert "almgren_chriss needs impact" in result.run.report.read_text(encoding="utf-8")
