"""Assets, days and ranges of the data of orders: derived where a source lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.compose import (
    TWAP,
    Order,
    OrderExecution,
    SimulatedMinutes,
    SingleAssetOrderExecution,
    run_orders,
)
from sekai.compose.orders.data import as_intraday
from sekai.data import FrameIntraday, MarketData, TickStore
from sekai.data.intraday import TickSpan
from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError
from tests.compose.orders.days import DATE, day, order, panel, times

IDS = ("OrderExecution-v0", "BasketExecution-v0")


def uneven() -> MarketData:
    """Two days, of which the second has twice as many minutes."""
    whole = panel(2)
    rows = np.r_[:100, 240:480]
    return MarketData(whole.times[rows], whole.assets, whole.fields, whole.values[rows])


def store(folder: Path, data: MarketData) -> TickStore:
    return TickStore.build(data, folder / "store")


class Days:
    """Source of ticks that lists nothing."""

    def __init__(self, data: MarketData) -> None:
        self._days = as_intraday(data)

    def day(self, stock_id: str, date: np.datetime64) -> Any:
        return self._days.day(stock_id, date)


def source(kind: str, folder: Path, data: MarketData) -> Any:
    if kind == "store":
        return store(folder, data)
    if kind == "qlib":
        data.to_qlib(folder / "1min", freq="1min")
        return QlibIntraday(QlibProvider({"1min": folder / "1min"}), "1min")
    if kind == "frame":
        return FrameIntraday(data.to_frame())
    return data if kind == "panel" else Days(data)


@pytest.mark.parametrize("kind", ["store", "qlib", "frame", "panel", "unlisted"])
def test_an_order_over_several_days_shows_the_longest_of_its_days(
    kind: str, tmp_path: Path
) -> None:
    data = source(kind, tmp_path, uneven())
    long = Order("AAA", 900.0, "buy", f"{DATE} 10:30", "2020-01-03 14:00")

    env = sekai.make("OrderExecution-v0", data=data, orders=[long], order_steps=12)
    result: Any = env.reset(seed=0)
    while not getattr(result, "terminated", False):
        result = env.step(1)

    assert result.observation["data_processed"].shape == (240, 2)
    assert result.info["log"]["ffr"][1] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["store", "qlib", "frame"])
@pytest.mark.parametrize("id", IDS)
def test_a_source_that_lists_its_assets_and_days_needs_no_others(
    kind: str, id: str, tmp_path: Path
) -> None:
    data = panel(3)

    env = sekai.make(id, data=source(kind, tmp_path, data))
    own = sekai.make(id, data=data)

    for seed in range(5):
        mine, theirs = env.reset(seed=seed), own.reset(seed=seed)
        assert mine.observation["target"] == pytest.approx(theirs.observation["target"])
        assert np.array_equal(mine.observation["cur_tick"], theirs.observation["cur_tick"])


class Listed(Days):
    """Source of ticks of your own that knows the range of each asset."""

    def span(self, stock_id: str) -> TickSpan:
        assert stock_id in ("AAA", "BBB")
        return TickSpan.of(uneven().times)


def test_a_source_with_ranges_of_its_own_needs_assets_alone() -> None:
    env: Any = sekai.make("OrderExecution-v0", data=Listed(uneven()), assets=["BBB"])

    assert env.reset(seed=0).observation["data_processed"].shape == (240, 2)
    late = Order("AAA", 5.0, "buy", "2020-01-03 14:00", "2020-01-04 10:00")
    with pytest.raises(DataError, match="partly outside of the data on 2020-01-04"):
        run_orders([late], Listed(uneven()), TWAP(), progress=False)


def test_one_day_is_its_own_asset_and_date() -> None:
    env: Any = OrderExecution(data=day())

    env.reset(seed=0)

    assert env.simulator.order.stock_id == "AAA"


def test_a_source_that_lists_nothing_needs_assets_and_days() -> None:
    days = Days(panel())

    with pytest.raises(ValueError, match="pass them by assets="):
        OrderExecution(data=days)
    with pytest.raises(ValueError, match="pass them by days="):
        OrderExecution(data=days, assets=["AAA"])
    OrderExecution(data=days, assets=["AAA"], days=[DATE]).reset(seed=0)


@pytest.mark.parametrize("kind", ["store", "qlib", "frame", "panel"])
@pytest.mark.parametrize("id", IDS)
def test_an_unknown_asset_is_refused_at_construction(kind: str, id: str, tmp_path: Path) -> None:
    data = source(kind, tmp_path, panel())

    with pytest.raises(DataError, match="unknown (asset|instrument) 'AAB'.*did you mean 'AAA'"):
        sekai.make(id, data=data, assets=["BBB", "AAB"], days=[DATE])


@pytest.mark.parametrize("state", ["full_history", "dummy"])
def test_an_order_of_an_unknown_asset_is_refused_at_construction(state: str) -> None:
    other = Order("AAB", 10.0, "buy", f"{DATE} 10:00", f"{DATE} 11:00")

    with pytest.raises(DataError, match="unknown asset 'AAB'.*did you mean 'AAA'"):
        OrderExecution(data=panel(), orders=[other], state=state)


OUTSIDE = [
    (f"{DATE} 14:00", "2020-01-05 10:00", "on 2020-01-05", "2020-01-02T09:30 to 2020-01-03T14:59"),
    ("2019-12-31 14:00", f"{DATE} 10:00", "on 2019-12-31", "2020-01-02T09:30 to 2020-01-03T14:59"),
    ("2020-01-03 14:00", "2020-01-03 16:00", "on 2020-01-03", "09:30 to 14:59"),
    (f"{DATE} 08:00", f"{DATE} 10:00", "on 2020-01-02", "09:30 to 14:59"),
    (f"{DATE} 14:00", f"{DATE} 15:01", "on 2020-01-02", "09:30 to 14:59"),
]


@pytest.mark.parametrize("kind", ["store", "qlib", "frame", "panel"])
@pytest.mark.parametrize(("start", "end", "date", "span"), OUTSIDE)
def test_an_order_partly_outside_of_the_data_is_refused(
    kind: str, start: str, end: str, date: str, span: str, tmp_path: Path
) -> None:
    data = source(kind, tmp_path, panel(2))
    partly = Order("AAA", 900.0, "sell", start, end)

    said = f"order to sell 900 of AAA from .* is partly outside of the data {date}.*{span}"
    with pytest.raises(DataError, match=said):
        run_orders([partly], data, TWAP(), progress=False)
    with pytest.raises(DataError, match=said):
        sekai.make("OrderExecution-v0", data=data, orders=[partly], order_steps=20).reset(seed=0)


def test_an_order_after_the_end_of_a_cut_day_is_refused() -> None:
    whole = panel(2)
    cut = MarketData(whole.times[:300], whole.assets, whole.fields, whole.values[:300])

    with pytest.raises(DataError, match="2020-01-02T09:30 to 2020-01-03T10:29"):
        run_orders(
            [Order("AAA", 9.0, "buy", "2020-01-03 10:00", "2020-01-03 11:00")], cut, TWAP(),
            progress=False,
        )  # fmt: skip


def test_an_order_by_the_rules_of_qlib_partly_outside_is_refused() -> None:
    minutes = FrameIntraday(panel(2).to_frame())
    executor, exchange = {"time_per_step": "30min"}, {"deal_price": "$close"}

    for start, end in (("08:00", "10:00"), ("14:00", "16:00")):
        with pytest.raises(DataError, match="partly outside of the data on 2020-01-02"):
            SingleAssetOrderExecution(order(start, end), executor, exchange, data=minutes)
    SingleAssetOrderExecution(order("09:30", "15:00"), executor, exchange, data=minutes)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (DATE, "2020-01-03"),
        (DATE, "2020-01-04"),
        (f"{DATE} 09:30", f"{DATE} 15:00"),
        (f"{DATE} 09:29", f"{DATE} 14:59:30"),
    ],
)
def test_dates_alone_are_whole_sessions_and_bars_may_be_stamped_at_either_end(
    start: str, end: str
) -> None:
    inside = Order("AAA", 900.0, "buy", start, end)

    report = run_orders([inside], panel(2), TWAP(), progress=False)

    assert report.metrics["ffr"] == pytest.approx(1.0)


def test_a_short_day_between_others_ends_the_order_with_its_session() -> None:
    data = uneven()

    report = run_orders([order("10:00", "14:59")], data, TWAP(), progress=False)

    assert report.fills["time"][-1] == times(100)[-1]
    with pytest.raises(DataError, match="partly outside"):
        run_orders([order("09:30", "14:00")], SimulatedMinutes(ticks=100), TWAP(), progress=False)
