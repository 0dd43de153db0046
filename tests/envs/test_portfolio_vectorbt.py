"""Accounts on daily stocks are to vectorbt what they are to us."""

from __future__ import annotations

import csv
import gzip
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import MarketData
from sekai.market import Costs, Execution
from tests.envs.portfolio_worlds import Episode, Floats, World, play, settings

FILE = Path("daily_stocknet") / "stocknet_88_daily_ohlcv_2012-2017.csv.gz"
RATE = 0.0015
RELATIVE = 1e-12


def stocks(names: int, rows: int) -> MarketData:
    """Daily bars of stocks that have one on every day, split-adjusted or not as they come."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    file = Path(os.environ.get("SEKAI_DATA", beside)) / FILE
    if not file.exists():
        pytest.skip(f"needs {FILE} in the folder that SEKAI_DATA names, or beside the repository")
    with gzip.open(file, "rt") as lines:
        records = list(csv.DictReader(lines))
    bars: dict[str, dict[str, dict[str, str]]] = {}
    for record in records:
        by_name = {key.lower(): value for key, value in record.items()}
        bars.setdefault(by_name["symbol"], {})[by_name["date"][:10]] = by_name
    full = max(len(days) for days in bars.values())
    chosen = sorted(name for name, days in bars.items() if len(days) == full)[:names]
    days = sorted(bars[chosen[0]])[:rows]
    values = [
        [[float(bars[name][day][field]) for field in ("open", "close")] for name in chosen]
        for day in days
    ]
    return MarketData(np.array(days, "datetime64[ns]"), chosen, ["open", "close"], values)


def our_episode(data: MarketData, fill: str) -> tuple[World, Episode]:
    rng, assets = np.random.default_rng(7), len(data.assets)
    weights = 0.9 * rng.dirichlet(np.ones(assets), len(data) - 1)
    actions = np.column_stack([weights, 1 - weights.sum(axis=1)])
    costs = Costs(proportional=RATE / 3, half_spread=2 * RATE / 3, impact=0.0)
    execution = Execution(fill=fill, smallest_trade=0.0)  # type: ignore[arg-type]
    world = World(data=data, config=settings(costs=costs, execution=execution), actions=actions)
    return world, play(world)


def their_portfolio(data: MarketData, size: Floats, prices: Floats, kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vectorbt = pytest.importorskip("vectorbt")
        return vectorbt.Portfolio.from_orders(
            close=data.field("close"), size=size, size_type=kind, price=prices, fees=RATE,
            init_cash=100_000.0, cash_sharing=True, group_by=True, call_seq="auto",
        )  # fmt: skip


def compare(names: int, rows: int, fill: str) -> None:
    data = stocks(names, rows)
    world, episode = our_episode(data, fill)
    prices = data.field({"next_open": "open", "next_close": "close"}[fill])
    traded = np.full(prices.shape, np.nan)
    for row, asset, units, price, _ in episode.fills():
        traded[row, asset] = units
        assert price == prices[row, asset]
    weights = np.vstack([np.full(names, np.nan), world.actions[:, :-1]])

    for size, kind in ((traded, "amount"), (weights, "targetpercent")):
        theirs = their_portfolio(data, size, prices, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cash, value = np.asarray(theirs.cash())[1:], np.asarray(theirs.value())[1:]
            records = theirs.orders.records_arr
        fees = np.bincount(records["idx"], records["fees"], minlength=rows)[1:]
        # Cash is what is left of equity after purchases, and so as exact as that.
        np.testing.assert_allclose(episode.of("cash"), cash, rtol=0, atol=RELATIVE * value.min())
        np.testing.assert_allclose(episode.of("equity"), value, rtol=RELATIVE)
        np.testing.assert_allclose(episode.of("cost"), fees, rtol=RELATIVE)


@pytest.mark.timeout(300)
def test_vectorbt_finds_the_same_cash_value_and_fees() -> None:
    compare(names=5, rows=120, fill="next_open")


@pytest.mark.nightly
@pytest.mark.parametrize("fill", ["next_open", "next_close"])
def test_vectorbt_finds_the_same_over_years_and_many_stocks(fill: str) -> None:
    compare(names=60, rows=1200, fill=fill)
