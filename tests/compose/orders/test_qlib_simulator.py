"""The simulator that goes by the rules of Qlib's exchange, on folders in Qlib's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import (
    Order,
    OrderDir,
    SingleAssetOrderExecution,
    SingleAssetOrderExecutionSimple,
    init_qlib,
)
from sekai.compose.orders.baselines import TWAP
from sekai.data.market_data import MarketData
from sekai.error import DataError
from tests.compose.orders.days import DATE, order, panel, shares_of_rest, work
from tests.spaces.strategies import law

EXECUTOR: dict[str, Any] = {
    "class": "NestedExecutor",
    "module_path": "qlib.backtest.executor",
    "kwargs": {
        "time_per_step": "1day",
        "inner_strategy": {"class": "ProxySAOEStrategy", "module_path": "qlib.rl.order_execution"},
        "track_data": True,
        "inner_executor": {
            "class": "NestedExecutor",
            "module_path": "qlib.backtest.executor",
            "kwargs": {
                "time_per_step": "30min",
                "inner_strategy": {"class": "TWAPStrategy"},
                "inner_executor": {
                    "class": "SimulatorExecutor",
                    "kwargs": {"time_per_step": "1min", "verbose": False},
                },
            },
        },
    },
}
FREE: dict[str, Any] = {
    "freq": "1min", "deal_price": "close", "open_cost": 0.0, "close_cost": 0.0, "min_cost": 0.0,
    "trade_unit": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> MarketData:
    return panel()


@pytest.fixture(scope="module")
def folders(data: MarketData, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("provider") / "1min"
    data.to_qlib(root, freq="1min")
    return {"provider_uri_1min": str(root)}


def simulator(
    folders: dict[str, str], given_order: Order | None = None, cash: float | None = None,
    **exchange: Any,
) -> SingleAssetOrderExecution:  # fmt: skip
    config = {**FREE, **exchange}
    return SingleAssetOrderExecution(given_order or order(), EXECUTOR, config, folders, cash)


def test_the_end_of_an_order_is_part_of_it(folders: dict[str, str]) -> None:
    state = simulator(folders, order("09:30", "10:00")).get_state()

    assert len(state.ticks_for_order) == 31
    assert state.num_steps == 2


def test_twap_has_eight_steps_and_no_advantage(folders: dict[str, str]) -> None:
    worked = work(simulator(folders, order("09:30", "14:59")), TWAP())

    assert worked.metrics is not None
    assert worked.cur_step == 8
    assert worked.metrics.pa == pytest.approx(0.0, abs=1e-7)
    assert worked.metrics.position == 0.0


@law
@given(
    amount=st.floats(0.1, 1e5),
    first=st.integers(0, 100),
    length=st.integers(1, 100),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    direction=st.sampled_from(OrderDir),
)
def test_without_limits_both_simulators_give_the_same_fills(
    folders: dict[str, str],
    data: MarketData,
    amount: float,
    first: int,
    length: int,
    shares: list[float],
    direction: OrderDir,
) -> None:
    stamps = data.times
    closed = Order("AAA", amount, direction, stamps[first], stamps[first + length])
    beyond = stamps[first + length] + np.timedelta64(1, "s")
    one = simulator(folders, closed)
    other = SingleAssetOrderExecutionSimple(
        Order("AAA", amount, direction, stamps[first], beyond), one.backtest_data.ticks
    )

    policy = shares_of_rest(shares)
    fills = [work(which, policy).fills for which in (one, other)]

    assert fills[0]["time"].tolist() == fills[1]["time"].tolist()
    for name in ("filled", "price", "value"):
        assert fills[0][name] == pytest.approx(fills[1][name], rel=1e-9, abs=1e-9 * amount)


def test_fills_come_in_whole_units_of_real_shares(folders: dict[str, str]) -> None:
    worked = work(simulator(folders, order("09:30", "14:59", 1234.0), trade_unit=100), TWAP())

    # The factor of the data is 2: a unit of 100 real shares is 50 adjusted ones.
    filled = worked.fills["filled"]
    assert filled[filled > 0] % 50 == pytest.approx(0.0)
    assert 0 < worked.position < 50 * 8
    assert worked.metrics is not None
    assert worked.metrics.position == worked.position


def test_costs_have_a_least(folders: dict[str, str]) -> None:
    costs = {"open_cost": 0.0005, "close_cost": 0.0015, "min_cost": 5.0}
    for direction, rate in ((OrderDir.BUY, 0.0005), (OrderDir.SELL, 0.0015)):
        large = order("09:30", "14:59", 1e6, direction)
        worked = work(simulator(folders, large, **costs), TWAP())
        assert worked.cost == pytest.approx(worked.fills["value"].sum() * rate)

    small = work(simulator(folders, order("09:30", "14:59", 1.0), **costs), TWAP())
    assert small.cost == pytest.approx(5.0 * 240)


def test_a_cap_on_all_and_one_on_buyers_hold_together(folders: dict[str, str]) -> None:
    caps = {"all": ("current", "0.5*$volume"), "buy": ("cum", "10*($volume/$volume)")}
    bought = work(simulator(folders, order(amount=1e6), volume_threshold=caps), TWAP())
    sold = work(simulator(folders, order(amount=1e6, direction=0), volume_threshold=caps), TWAP())

    assert bought.fills["filled"].sum() == pytest.approx(10.0)
    assert sold.fills["filled"] == pytest.approx(sold.history_exec["market_volume"] * 0.5)


def test_cash_limits_what_is_bought(folders: dict[str, str]) -> None:
    worked = work(simulator(folders, order(amount=1e4), cash=1e4, open_cost=0.01), TWAP())

    assert worked.cash == pytest.approx(0.0, abs=1e-6)
    spent = worked.fills["value"].sum() + worked.fills["cost"].sum()
    assert spent == pytest.approx(1e4)
    sold = work(simulator(folders, order(amount=100, direction=0), cash=0.0), TWAP())
    assert sold.cash == pytest.approx(sold.fills["value"].sum())


def test_nothing_is_bought_at_the_upper_limit(data: MarketData, tmp_path: Path) -> None:
    values = data.values.copy()
    values[5:10, 0, 3] = 0.1
    values[12:14, 0, 3] = -0.1
    data.replace(values=values).to_qlib(tmp_path / "data", freq="1min")
    config = {"provider_uri_1min": str(tmp_path / "data")}

    for limit in (0.095, ["$change >= 0.095", "$change <= -0.095"]):
        bought = simulator(config, limit_threshold=limit)
        sold = simulator(config, order(direction=0), limit_threshold=limit)
        for one in (bought, sold):
            one.step(30.0)
        assert np.flatnonzero(bought.fills["filled"] == 0).tolist() == [5, 6, 7, 8, 9]
        assert np.flatnonzero(sold.fills["filled"] == 0).tolist() == [12, 13]
        assert bought.fills["filled"].sum() == pytest.approx(30.0)


def test_suspended_ticks_are_skipped_and_caught_up(data: MarketData, tmp_path: Path) -> None:
    values, quoted = data.values.copy(), data.quoted.copy()
    values[3:5, 0, 0], quoted[3:5, 0] = np.nan, False
    data.replace(values=values, quoted=quoted, tradable=quoted).to_qlib(
        tmp_path / "data", freq="1min"
    )
    one = simulator({"provider_uri_1min": str(tmp_path / "data")})

    one.step(30.0)

    assert one.fills["filled"][:7].tolist() == pytest.approx([1, 1, 1, 0, 0, 3, 1])
    assert one.history_steps[0]["market_price"] == pytest.approx(np.nanmean(values[:30, 0, 0]))


def test_without_a_factor_there_are_no_units(data: MarketData, tmp_path: Path) -> None:
    data.select(fields=["close", "volume"]).to_qlib(tmp_path / "data", freq="1min")
    config = {"provider_uri_1min": str(tmp_path / "data")}

    worked = work(simulator(config, order("09:30", "14:59", 123.4), trade_unit=100), TWAP())

    assert worked.position == 0.0


def test_prices_are_expressions_of_their_own_for_buyers_and_sellers(
    folders: dict[str, str],
) -> None:
    prices = ["$close*1.01", "$close*0.99"]
    bought = simulator(folders, deal_price=prices)
    sold = simulator(folders, order(direction=0), deal_price=prices)

    assert bought.twap_price / sold.twap_price == pytest.approx(1.01 / 0.99, rel=1e-6)


def test_folders_chosen_before_are_used_where_none_are_given(folders: dict[str, str]) -> None:
    init_qlib(folders)

    one = SingleAssetOrderExecution(order(), EXECUTOR, FREE)

    assert one.twap_price == simulator(folders).twap_price


@pytest.mark.parametrize(
    ("executor", "found"),
    [
        ({"time_per_step": "30min", "speed": 3}, "speed"),
        ({"inner_executor": {}}, "no time_per_step"),
        ({"time_per_step": "1day"}, "step of minutes"),
        ({"time_per_step": "soon"}, "a duration must be"),
        ({"time_per_step": "30min", "inner_executor": {"time_per_step": "7min"}}, "multiple"),
        ({"time_per_step": "30min", "inner_strategy": {"class": "SBB"}}, "inner_strategy must be"),
        ({"class": "Another", "kwargs": {"time_per_step": "30min"}}, "Another"),
    ],
)
def test_executors_that_mean_something_else_are_refused(
    folders: dict[str, str], executor: Any, found: str
) -> None:
    with pytest.raises(ValueError, match=found):
        SingleAssetOrderExecution(order(), executor, FREE, folders)


REPORTS: dict[str, Any] = {
    "start_time": "2019-01-01",
    "end_time": "2021-01-01",
    "indicator_config": {"show_indicator": True, "pa_config": {"base_price": "vwap"}},
    "generate_portfolio_metrics": True,
    "verbose": True,
    "track_data": True,
    "trade_exchange": None,
    "common_infra": None,
    "settle_type": "None",
}


@pytest.mark.parametrize("executor", ["NestedExecutor", "SimulatorExecutor"])
@pytest.mark.parametrize(
    "extra",
    [{name: value} for name, value in REPORTS.items()]
    + [REPORTS, {"settle_type": "cash"}, {"generate_report": True}, {"show_indicator": False}],
)
def test_what_executors_use_for_reports_alone_is_ignored(
    folders: dict[str, str], executor: str, extra: dict[str, Any]
) -> None:
    config = {"class": executor, "kwargs": {"time_per_step": "30min", **extra}}

    worked = work(SingleAssetOrderExecution(order(), config, FREE, folders), TWAP())

    assert worked.fills.tolist() == work(simulator(folders), TWAP()).fills.tolist()


@pytest.mark.parametrize(
    ("executor", "extra"),
    [
        ("NestedExecutor", {"skip_empty_decision": False, "align_range_limit": True}),
        ("SimulatorExecutor", {"trade_type": "parallel"}),
        ("SimulatorExecutor", {"trade_type": "serial"}),
    ],
)
def test_what_makes_no_difference_to_one_order_is_ignored(
    folders: dict[str, str], executor: str, extra: dict[str, Any]
) -> None:
    config = {"class": executor, "kwargs": {"time_per_step": "30min", **extra}}

    assert SingleAssetOrderExecution(order(), config, FREE, folders).ticks_per_step == 30


@pytest.mark.parametrize(
    ("extra", "remedy"),
    [
        ({"trade_exchange": {"class": "Exchange"}}, "trade_exchange.*exchange_config"),
        ({"common_infra": object()}, "common_infra.*exchange_config.*cash_limit"),
        ({"settle_type": "stock"}, "settle_type.*'None' or 'cash'"),
        ({"align_range_limit": False}, "align_range_limit.*True"),
        ({"trade_type": "auction"}, "trade_type.*'serial' or 'parallel'"),
    ],
)
def test_keys_of_qlib_that_would_change_the_fills_are_refused(
    folders: dict[str, str], extra: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError, match=remedy):
        SingleAssetOrderExecution(order(), {"time_per_step": "30min", **extra}, FREE, folders)


def test_sales_settled_late_are_refused_where_cash_is_limited(folders: dict[str, str]) -> None:
    config = {"time_per_step": "30min", "settle_type": "cash"}

    SingleAssetOrderExecution(order(), config, FREE, folders)
    with pytest.raises(ValueError, match="settle_type 'cash'.*cash_limit"):
        SingleAssetOrderExecution(order(), config, FREE, folders, cash_limit=1e6)


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ({"time_per_step": "30min", "verbos": True}, "'verbos'; did you mean 'verbose'"),
        ({"time_per_stp": "30min"}, "'time_per_stp'; did you mean 'time_per_step'"),
        ({"class": "NestedExecutor", "kwarg": {}}, "'kwarg'; did you mean 'kwargs'"),
        (
            {"time_per_step": "30min", "inner_strategy": {"class": "TWAPStrategy", "kwarg": {}}},
            "inner_strategy.*'kwarg'; did you mean 'kwargs'",
        ),
        (
            {
                "time_per_step": "30min",
                "inner_strategy": {"class": "TWAPStrategy", "kwargs": {"slices": 3}},
            },
            "inner_strategy.*'slices'",
        ),
    ],
)
def test_a_misspelt_key_of_an_executor_names_the_nearest(
    folders: dict[str, str], executor: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        SingleAssetOrderExecution(order(), executor, FREE, folders)


def test_an_executor_can_be_given_without_its_wrapping(folders: dict[str, str]) -> None:
    short = SingleAssetOrderExecution(order(), {"time_per_step": "15min"}, FREE, folders)

    assert short.ticks_per_step == 15


def test_what_an_exchange_reads_but_does_not_trade_on_is_ignored(folders: dict[str, str]) -> None:
    config: dict[str, Any] = {
        "start_time": "2019-01-01",
        "end_time": "2021-01-01",
        "subscribe_fields": ["$high"],
        "quote_cls": "NumpyQuote",
        "extra_quote": None,
        "exchange": None,
        "cash_limit": None,
    }

    one = work(simulator(folders, **config), TWAP())

    assert one.fills.tolist() == work(simulator(folders), TWAP()).fills.tolist()


@pytest.mark.parametrize(
    ("exchange", "found"),
    [
        (
            {"deal_prce": "close"},
            "unknown key 'deal_prce'; did you mean 'deal_price'",
        ),
        ({"extra_quote": {"a": 1}}, "extra_quote must be None"),
        ({"exchange": {"class": "Exchange"}}, "exchange must be None"),
        ({"cash_limit": 1e6}, "cash_limit must be None.*SingleAssetOrderExecution"),
        ({"deal": "close"}, "unknown key 'deal'"),
        ({"volume_threshold": ("rolling", "$volume")}, "'current' or 'cum'"),
        ({"volume_threshold": {"both": ("cum", "$volume")}}, "all, buy or sell"),
        ({"deal_price": ["$close"]}, "one expression or two"),
        ({"min_cost": -1.0}, "min_cost must be"),
        ({"codes": ["BBB"]}, "expected one of the codes"),
    ],
)
def test_exchanges_that_mean_nothing_are_refused(
    folders: dict[str, str], exchange: Any, found: str
) -> None:
    with pytest.raises(ValueError, match=found):
        simulator(folders, **exchange)


def test_an_order_over_two_days_or_outside_of_the_session_is_refused(
    folders: dict[str, str],
) -> None:
    long = Order("AAA", 1, OrderDir.BUY, f"{DATE} 09:30", "2020-01-03 10:00")
    with pytest.raises(ValueError, match="within one day"):
        simulator(folders, long)
    with pytest.raises(DataError, match="no tick in the session from"):
        simulator(folders, order("08:00", "09:00"))
