"""Delistings in portfolios: settled where the data say so, reported, and never by a quiet hour."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.data import MarketData, Policies
from sekai.market import Costs, Execution
from tests.envs.portfolio_worlds import env_of, market_of

FILE = Path("minute_oanda", "oanda_1m_9symbols_2020Q1.csv.gz")


def played(data: MarketData, **options: Any) -> Any:
    """The infos of an episode that holds the same weight of everything, and its log."""
    env = sekai.make(
        "Portfolio-v0", data=data, features=["log_return"], lookback=1, starts=0,
        episode_rows=None, observation="index", record=True, **options,
    )  # fmt: skip
    env.reset(seed=0)
    assets = len(data.assets)
    weights, infos, is_done = np.full(assets + 1, 1 / (assets + 1)), [], False
    while not is_done:
        result = env.step(weights)
        infos.append(result.info)
        is_done = result.done
    return infos, env.unwrapped.take_log()[0]  # type: ignore[attr-defined]


def test_quiet_minutes_cost_nothing() -> None:
    times = np.datetime64("2020-01-06T14:30", "ns") + np.arange(300) * np.timedelta64(1, "m")
    close = np.full((300, 2, 1), 10.0)
    close[50:200, 1] = np.nan

    infos, log = played(
        MarketData(times, ["A", "B"], ["close"], close), execution=Execution(fill="next_close")
    )

    assert sum(info["delisting"] for info in infos) == 0.0
    assert sum(info["delisted"] for info in infos) == 0.0
    assert not log.trades.is_delisting.any()
    assert infos[-1]["equity"] > 0.99 * 100_000.0


def test_a_delisting_is_reported_where_it_is_settled() -> None:
    listed = np.array([[True, True]] * 3 + [[False, True]] * 2)
    data = market_of(np.full((5, 2), 10.0), listed=listed, quoted=listed)
    env = env_of(data, costs=Costs(delisting=0.25, proportional=0.0, half_spread=0.0), record=True)
    env.reset(seed=0)

    infos = [env.step(np.array([0.4, 0.0, 0.6])).info for _ in range(4)]

    (log,) = env.take_log()
    assert [info["delisted"] for info in infos] == pytest.approx([0.0, 0.0, 40_000.0, 0.0])
    assert [info["delisting"] for info in infos] == pytest.approx([0.0, 0.0, 10_000.0, 0.0])
    assert log.steps.delisted == pytest.approx([0.0, 0.0, 40_000.0, 0.0])
    assert log.trades.asset[log.trades.is_delisting].tolist() == ["A0"]
    assert log.trades.row[log.trades.is_delisting].tolist() == [3]


def test_an_inferred_delisting_is_settled_on_the_last_of_its_days() -> None:
    times = np.datetime64("2020-01-06", "ns") + np.arange(8) * np.timedelta64(12, "h")
    close = np.full((8, 2, 1), 10.0)
    close[3:, 1] = np.nan
    data = MarketData(times, ["A", "B"], ["close"], close, delist_after=2)

    infos, log = played(data, execution=Execution(fill="next_close"))

    assert [report.asset for report in data.repairs] == ["B"]
    assert log.trades.row[log.trades.is_delisting].tolist() == [6]
    assert [info["time_index"] for info in infos if info["delisted"]] == [6]


def test_real_minutes_lose_nothing_to_delistings() -> None:
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    file = Path(os.environ.get("SEKAI_DATA", beside)) / FILE
    if not file.exists():
        pytest.skip(f"needs {FILE} in the folder that SEKAI_DATA names, or beside the repository")
    data = MarketData.from_csv(file, timezone="UTC", policies=Policies(calendars="union"))

    infos, log = played(data.rows(0, 20_000))

    assert sum(info["delisting"] for info in infos) == 0.0
    assert not log.trades.is_delisting.any()
