"""The ledger explains the broker's account by fills, or says what it cannot explain."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.error import StateError
from sekai.live.account import BrokerAccount
from sekai.live.ledger import Ledger, adoption_fields
from sekai.live.orders import BrokerOrder, ExecutionReport, order_fields, report_fields
from sekai.live.paper.broker import PaperBroker
from sekai.market import Execution
from tests.live.trading import WORLDS, account_of, executions, plans, rows_of

SECOND = 1_000_000_000
PRICES = {"A": 100.0, "B": 50.0}
START = BrokerAccount(cash=10_000.0, units={"A": 20.0}, costs={"borrow": 1.0, "fixed": 2.0})


def fill(
    number: int, units: float, price: float = 100.0, asset: str = "A", cost: float = 0.0
) -> ExecutionReport:
    return ExecutionReport(
        id=f"r{number}", order_id=f"o{number}", kind="filled", units=units, price=price, cost=cost,
        asset=asset,
    )  # fmt: skip


def ledger_at(account: BrokerAccount = START, **how: Any) -> Ledger:
    ledger = Ledger(("A", "B"), **how)
    ledger.adopt(account, 0)
    return ledger


def moved(account: BrokerAccount, *fills: ExecutionReport) -> BrokerAccount:
    """Account of a venue after fills."""
    units, cash = dict(account.units), account.cash
    for report in fills:
        units[report.asset] = units.get(report.asset, 0.0) + report.units
        cash -= report.units * report.price + report.cost
    return replace(account, cash=cash, units=units)


def test_an_account_that_fills_explain_is_the_broker_s() -> None:
    ledger, report = ledger_at(), fill(1, 5.0, cost=0.5)
    ledger.apply(report, SECOND)

    check = ledger.compare(moved(START, report), 2 * SECOND, PRICES)

    assert (check.status, check.differences, check.is_tolerated) == ("agreed", (), True)
    assert ledger.account() is not START
    assert ledger.account() == moved(START, report)


def test_an_account_one_fill_behind_is_lagging_and_the_ledger_s_is_used() -> None:
    ledger, report = ledger_at(), fill(1, 5.0)
    ledger.apply(report, SECOND)

    check = ledger.compare(replace(START, open_units={"A": 5.0}), 2 * SECOND, PRICES)

    assert (check.status, check.lag, check.is_tolerated) == ("lagging", 1, True)
    assert ledger.account().units == {"A": 25.0}
    assert ledger.account().cash == 9_500.0
    assert ledger.account().open_units == {"A": 0.0}


def test_an_account_that_lags_for_too_long_is_different() -> None:
    ledger = ledger_at(account_lag_seconds=5.0)
    ledger.apply(fill(1, 5.0), SECOND)

    in_time, too_late = (ledger.compare(START, time * SECOND, PRICES) for time in (6, 7))

    assert [in_time.status, too_late.status] == ["lagging", "different"]
    assert not too_late.is_tolerated
    assert "A: expected 25.0, the broker reports 20.0" in too_late.reason


def test_a_fill_of_before_a_clock_step_counts_as_old() -> None:
    ledger = ledger_at()
    ledger.apply(fill(1, 5.0), 100 * SECOND)

    assert ledger.compare(START, 3 * SECOND, PRICES).status == "different"


def test_a_different_account_stays_so_until_the_broker_agrees() -> None:
    ledger = ledger_at()
    other = replace(START, units={"A": 12.0})

    assert ledger.compare(other, SECOND, PRICES).status == "different"
    assert ledger.account() is other
    ledger.apply(fill(1, 5.0), SECOND)
    assert ledger.compare(START, 2 * SECOND, PRICES).status == "different"
    assert ledger.compare(BrokerAccount(cash=0.0, units={}), 2 * SECOND).is_tolerated is False
    assert ledger.is_different
    assert ledger.compare(moved(START, fill(1, 5.0)), 3 * SECOND, PRICES).status == "agreed"
    assert not ledger.is_different


def test_a_different_account_is_adopted_by_command_only() -> None:
    ledger, other = ledger_at(), replace(START, units={"A": 12.0})

    statuses = [ledger.compare(other, time * SECOND, PRICES).status for time in range(1, 100)]
    ledger.adopt(other, 100 * SECOND)

    assert set(statuses) == {"different"}
    assert ledger.compare(other, 101 * SECOND, PRICES).status == "agreed"


@pytest.mark.parametrize(
    "answer",
    [
        BrokerAccount(cash=0.0, units={}),
        BrokerAccount(cash=0.0, units={"A": 0.0}),
        BrokerAccount(cash=math.nan, units={"A": 20.0}),
        BrokerAccount(cash=math.inf, units={"A": 20.0}),
        BrokerAccount(cash=10_000.0, units={"A": math.nan}),
        BrokerAccount(cash=10_000.0, units={}),
        BrokerAccount(cash=10_000.0, units={"A": 20.0}, costs={"borrow": math.nan}),
    ],
)
def test_an_empty_or_malformed_answer_is_unusable_and_changes_nothing(
    answer: BrokerAccount,
) -> None:
    ledger = ledger_at()

    check = ledger.compare(answer, SECOND, PRICES)

    assert (check.status, check.is_tolerated) == ("unusable", True)
    assert check.reason
    assert ledger.account().units == START.units
    assert ledger.account().cash == START.cash
    assert ledger.compare(START, 2 * SECOND, PRICES).status == "agreed"


def test_answers_that_stay_unusable_are_not_tolerated() -> None:
    ledger = ledger_at(account_lag_seconds=5.0)
    empty = BrokerAccount(cash=0.0, units={})

    tolerated = [ledger.compare(empty, time * SECOND).is_tolerated for time in (1, 5, 6, 60)]

    assert tolerated == [True, True, False, False]


def test_positions_that_others_closed_are_a_difference() -> None:
    sold = BrokerAccount(cash=12_000.0, units={}, costs=START.costs)

    assert ledger_at().compare(sold, SECOND, PRICES).status == "different"


def test_an_account_that_was_closed_by_own_fills_is_no_empty_answer() -> None:
    ledger = ledger_at(replace(START, cash=-2_000.0))
    ledger.apply(fill(1, -20.0), SECOND)

    assert ledger.compare(replace(START, cash=0.0, units={}), SECOND, PRICES).status == "agreed"


def test_thirty_percent_of_cash_do_not_vanish_unnoticed() -> None:
    check = ledger_at().compare(replace(START, cash=7_000.0), SECOND, PRICES)

    assert check.status == "different"
    assert check.reason == "cash: expected 10000.0, the broker reports 7000.0"


def test_small_cash_is_absorbed_and_counted_up_to_a_share_of_equity_per_day() -> None:
    ledger = ledger_at(max_cash_discrepancy=0.001)
    steps = [START.cash + change for change in (5.0, 0.0, 4.0)]

    checks = [ledger.compare(replace(START, cash=cash), SECOND, PRICES) for cash in steps]

    assert [check.status for check in checks] == ["agreed", "agreed", "different"]
    assert (ledger.absorbed, ledger.absorptions) == (10.0, 2)
    ledger.begin_day()
    assert ledger.compare(replace(START, cash=steps[2]), SECOND, PRICES).status == "agreed"
    assert (ledger.absorbed, ledger.absorptions) == (4.0, 3)


def test_nothing_is_absorbed_while_equity_is_unknown() -> None:
    assert ledger_at().compare(replace(START, cash=10_001.0), SECOND).status == "different"


def test_holding_costs_explain_cash_where_the_broker_reports_them() -> None:
    later = replace(START, cash=9_900.0, costs={"borrow": 101.0, "fixed": 2.0})
    ledger = ledger_at()

    assert ledger.compare(later, SECOND, PRICES).status == "agreed"
    assert ledger.compare(replace(later, costs={"fixed": 102.0}), SECOND).status == "different"


def test_foreign_assets_are_listed_and_their_changes_are_no_difference() -> None:
    ledger = ledger_at(replace(START, units={"A": 20.0, "BNB": 0.5}))

    same = ledger.compare(replace(START, units={"A": 20.0, "BNB": 0.5}), SECOND, PRICES)
    less = ledger.compare(replace(START, units={"A": 20.0, "BNB": 0.4}), SECOND, PRICES)

    assert (same.status, same.foreign, same.foreign_changes) == ("agreed", {"BNB": 0.5}, ())
    assert less.status == "agreed"
    assert [str(change) for change in less.foreign_changes] == [
        "BNB: expected 0.5, the broker reports 0.4"
    ]


def test_dividends_and_splits_are_no_difference() -> None:
    ledger = ledger_at()

    ledger.corporate_action("A", SECOND, dividend=1.5, split=2.0)

    after = replace(START, units={"A": 40.0}, cash=10_060.0)
    assert ledger.compare(after, SECOND, PRICES).status == "agreed"


def test_a_report_counts_once_and_fills_without_an_asset_are_left() -> None:
    ledger, report = ledger_at(), replace(fill(1, 5.0), asset="")

    assert not ledger.apply(report, SECOND)
    ledger.expect(BrokerOrder(id="o1", asset="A", units=5.0, reference_price=100.0))
    assert [ledger.apply(report, SECOND) for _ in range(3)] == [True, False, False]
    assert not ledger.apply(fill(2, math.nan), SECOND)
    assert ledger.units == {"A": 25.0}


def test_a_malformed_account_is_not_adopted() -> None:
    ledger = ledger_at()

    with pytest.raises(ValueError, match=r"cannot be adopted: not finite numbers: \['cash'\]"):
        ledger.adopt(replace(START, cash=math.nan), SECOND)

    assert ledger.compare(START, SECOND).status == "agreed"


def test_a_state_that_is_none_is_refused_and_changes_nothing() -> None:
    ledger = ledger_at()
    before = ledger.state_dict()

    with pytest.raises(StateError, match="not the state of a ledger"):
        ledger.load_state_dict({**before, "entries": [["A"]]})

    assert ledger.state_dict() == before


amounts = st.floats(-50.0, 50.0).filter(lambda units: abs(units) > 0.01)
fills = st.lists(
    st.tuples(amounts, st.sampled_from([90.0, 100.0, 111.5]), st.sampled_from("AB"),
              st.sampled_from([0.0, 0.37])),
    min_size=1, max_size=12,
)  # fmt: skip


@given(drawn=fills, data=st.data())
def test_any_number_of_fills_behind_is_lag_and_its_end_is_agreement(
    drawn: list[tuple[float, float, str, float]], data: st.DataObject
) -> None:
    ledger = ledger_at(max_cash_discrepancy=0.0)
    reports = [fill(number, *part) for number, part in enumerate(drawn)]
    for number, report in enumerate(reports):
        ledger.apply(report, SECOND)
        behind = data.draw(st.integers(0, number + 1))
        answer = moved(START, *reports[: number + 1 - behind])

        check = ledger.compare(answer, 2 * SECOND, PRICES)

        assert (check.status, check.lag) in {("agreed", 0), ("lagging", behind)} or (
            # Fills that cancel each other out are one account.
            check.status == "lagging" and check.lag < behind
        )
        truth = moved(START, *reports[: number + 1])
        assert ledger.account().cash == pytest.approx(truth.cash, abs=1e-6)
        assert ledger.account().units == pytest.approx(dict(truth.units), abs=1e-6)
        assert check.status != "agreed" or answer.units == pytest.approx(
            dict(truth.units), abs=1e-6
        )


@given(drawn=fills, change=st.floats(0.5, 500.0), cut=st.integers(0, 12))
def test_what_no_fill_explains_is_a_difference(
    drawn: list[tuple[float, float, str, float]], change: float, cut: int
) -> None:
    ledger = ledger_at(max_cash_discrepancy=0.0)
    reports = [fill(number, *part) for number, part in enumerate(drawn)]
    for report in reports:
        ledger.apply(report, SECOND)
    answer = moved(START, *reports[:cut])

    check = ledger.compare(replace(answer, cash=answer.cash - change), SECOND, PRICES)

    explained = {
        round(moved(START, *reports[:count]).cash, 6)
        for count in range(len(reports) + 1)
        if moved(START, *reports[:count]).units == answer.units
    }
    assert check.status == "different" or round(answer.cash - change, 6) in explained


@given(drawn=fills, data=st.data())
def test_replayed_records_and_saved_states_give_the_same_ledger(
    drawn: list[tuple[float, float, str, float]], data: st.DataObject
) -> None:
    live, replayed, loaded = ledger_at(), Ledger(("A", "B")), Ledger(("A", "B"))
    replayed.replay("ledger", json.loads(json.dumps(adoption_fields(START))), 0)
    answer = START
    for number, part in enumerate(drawn):
        report = replace(fill(number, *part), asset="")
        order = BrokerOrder(id=f"o{number}", asset=part[2], units=part[0], reference_price=part[1])
        live.expect(order)
        replayed.replay("decision", {"orders": [order_fields(order)]}, SECOND)
        for _ in range(data.draw(st.integers(1, 2))):
            live.apply(report, SECOND)
            replayed.replay("report", report_fields(report), SECOND)
        answer = moved(answer, fill(number, *part))
        answer = replace(answer, cash=answer.cash + data.draw(st.sampled_from([0.0, 0.5])))
        check = live.compare(answer, SECOND, PRICES)
        replayed.replay("ledger", check.fields(), SECOND)

    loaded.load_state_dict(json.loads(json.dumps(live.state_dict())))

    for other in (replayed, loaded):
        assert (other.units, other.cash) == (live.units, live.cash)
        assert (other.absorbed, other.absorptions) == (live.absorbed, live.absorptions)
        assert other.is_different == live.is_different
    assert loaded.state_dict() == live.state_dict()
    assert loaded.account().units == live.account().units


@given(plan=plans, execution=executions, world=st.integers(0, 2))
@settings(max_examples=25)
def test_the_account_of_a_paper_broker_is_explained_row_by_row(
    plan: list[list[tuple[str, float]]], execution: Execution, world: int
) -> None:
    async def scene() -> list[str]:
        data = WORLDS[world]
        broker, ledger, statuses = PaperBroker(account_of(data, execution)), Ledger(), []
        ledger.adopt(await broker.account(), 0)
        for number, row in enumerate(rows_of(data)):
            for place, (asset, wanted) in enumerate(plan[number] if number < len(plan) else ()):
                order = BrokerOrder(
                    id=f"{number}-{place}", asset=asset, units=wanted, reference_price=100.0
                )
                ledger.expect(order)
                await broker.submit(order)
            await broker.see(row)
            for report in await broker.reports():
                ledger.apply(report, number * SECOND)
            check = ledger.compare(await broker.account(), number * SECOND)
            statuses.append(check.reason or check.status)
        await broker.close()
        return statuses

    assert set(asyncio.run(scene())) == {"agreed"}
