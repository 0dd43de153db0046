from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.error import JournalError
from sekai.live.journal import Journal, JournalRecord, RecordKind, read_journal
from sekai.live.journal import session as session_journal
from sekai.live.journal.session import TradeLog, trades_of
from sekai.live.orders import BrokerOrder, ExecutionReport, order_fields, report_fields
from sekai.storage.strict_json import decode_record, encode_record

ORDER = BrokerOrder(id="s-1-A", asset="A", units=3.0, reference_price=10.0)


def fill(report_id: str, units: float, order_id: str = "s-1-A", **more: float) -> ExecutionReport:
    return ExecutionReport(
        id=report_id, order_id=order_id, kind="filled", units=units, price=10.5, cost=0.25,
        broker_time=int(more.get("broker_time", 99)),
    )  # fmt: skip


def test_a_fill_is_told_with_all_its_times(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        decided = journal.append("decision", orders=[order_fields(ORDER)])
        sent = journal.append("sent", id=ORDER.id)
        acknowledged = ExecutionReport(id="r0", order_id=ORDER.id, kind="acknowledged")
        journal.append("report", **report_fields(acknowledged))
        filled = journal.append("report", **report_fields(fill("r1", 1.0)))
        journal.append("report", **report_fields(fill("r2", 2.0, broker_time=0)))
        journal.append("report", **report_fields(fill("r1", 1.0)))

    first, second = trades_of(path)
    assert (first.asset, first.order_id, first.report_id) == ("A", "s-1-A", "r1")
    assert (first.units, first.price, first.cost, first.time) == (1.0, 10.5, 0.25, 99)
    assert (first.decided, first.sent, first.filled) == (decided.time, sent.time, filled.time)
    assert (second.units, second.time) == (2.0, second.filled)


def test_an_order_that_is_sent_again_is_the_same_order() -> None:
    kinds: list[tuple[RecordKind, dict[str, object]]] = [
        ("decision", {"orders": [order_fields(ORDER)]}),
        ("sent", {"id": ORDER.id}),
        ("report", report_fields(fill("r1", 1.0))),
        ("decision", {"orders": [order_fields(ORDER)]}),
        ("sent", {"id": ORDER.id}),
        ("report", report_fields(fill("r1", 1.0))),
        ("report", report_fields(fill("r2", 2.0))),
    ]

    first, second = trades_of(
        JournalRecord(number=at, time=at, kind=kind, fields=fields)
        for at, (kind, fields) in enumerate(kinds)
    )

    assert (first.decided, first.sent, first.filled) == (0, 1, 2)
    assert (second.decided, second.sent, second.filled) == (0, 1, 6)


def test_a_report_is_journaled_with_everything_but_when_it_came() -> None:
    assert report_fields(fill("r1", 1.0)).keys() == {
        "id", "order_id", "kind", "units", "price", "cost", "asset", "reason", "broker_time"
    }  # fmt: skip
    assert BrokerOrder(**order_fields(ORDER)) == ORDER
    assert ExecutionReport(**report_fields(fill("r1", 1.0))) == fill("r1", 1.0)


EVENTS = st.lists(
    st.one_of(
        st.just(("decision", {"orders": []})),
        st.builds(
            lambda asset: (
                "decision", {"orders": [order_fields(replace(ORDER, id=asset, asset=asset))]}
            ),
            st.sampled_from("AB"),
        ),
        st.builds(lambda asset: ("sent", {"id": asset}), st.sampled_from("AB")),
        st.builds(
            lambda asset, number: ("report", report_fields(fill(f"{asset}{number}", 1.0, asset))),
            st.sampled_from("ABC"), st.integers(0, 3),
        ),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(
    events=EVENTS,
    saved=st.integers(0, 12),
    crash=st.integers(0, 12),
    lost=st.integers(0, 200),
)
def test_trades_are_equal_after_a_crash(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, dict[str, object]]],
    saved: int,
    crash: int,
    lost: int,
) -> None:
    folder = tmp_path_factory.mktemp("trades")
    path = folder / "trades.jsonl"
    records = [
        JournalRecord(number=number, time=number, kind=kind, fields=fields)  # type: ignore[arg-type]
        for number, (kind, fields) in enumerate(events)
    ]
    saved = min(saved, crash)
    with TradeLog(path) as log:
        for record in records[:saved]:
            log.add(record)
        state = decode_record(encode_record(log.state_dict()))
        kept = log.state_dict()["bytes"]
        for record in records[saved:crash]:
            log.add(record)
    # The last lines may not have reached the disk, or not whole.
    if path.exists():
        os.truncate(path, max(kept, path.stat().st_size - lost))

    with TradeLog(path) as log:
        log.load_state_dict(state)
        for record in records[saved:]:
            log.add(record)
        assert log.problem is None

    wanted = [json.loads(trade.to_json()) for trade in trades_of(records)]
    lines = path.read_text().splitlines() if records[saved:] or path.exists() else []
    assert [json.loads(line) for line in lines] == wanted
    reports = [one["id"] for kind, one in events if kind == "report"]
    assert len(wanted) == len(set(reports)), "each report counts once"


def test_a_fill_of_an_unknown_order_is_told_too() -> None:
    record = JournalRecord(
        number=1, time=5, kind="report", fields=report_fields(fill("r", 1.0, "other"))
    )

    (trade,) = trades_of([record, record])

    assert (trade.asset, trade.decided, trade.sent, trade.units) == ("", None, None, 1.0)


def test_a_price_that_is_no_number_is_written_as_none(tmp_path: Path) -> None:
    report = report_fields(fill("r", 1.0)) | {"price": float("nan")}

    with TradeLog(tmp_path / "trades.jsonl") as log:
        log.add(JournalRecord(number=1, time=5, kind="report", fields=report))

    assert json.loads((tmp_path / "trades.jsonl").read_text())["price"] is None


@pytest.mark.parametrize("fields", [{}, {"kind": "filled"}, {"kind": "filled", "order_id": 1}])
def test_a_record_that_lacks_something_is_named(fields: dict[str, object]) -> None:
    with pytest.raises(JournalError, match="record 7"):
        trades_of([JournalRecord(number=7, time=5, kind="report", fields=fields)])


def test_only_so_many_orders_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_journal, "REMEMBERED_ORDERS", 10)
    trades = session_journal._TradeBuilder()

    for number in range(100):
        order = BrokerOrder(id=f"o{number}", asset="A", units=1.0, reference_price=1.0)
        trades.add(
            JournalRecord(
                number=number, time=1, kind="decision", fields={"orders": [order_fields(order)]}
            )
        )

    assert len(trades._orders) == 10
    assert "o99" in trades._orders


def report_record(number: int) -> JournalRecord:
    fields = report_fields(fill(f"r{number}", 1.0))
    return JournalRecord(number=number, time=5, kind="report", fields=fields)


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = TradeLog(tmp_path / "trades.jsonl")
    log.close()
    log.close()

    with pytest.raises(JournalError, match="closed"):
        log.add(report_record(1))


def test_what_cannot_be_written_is_reported_and_written_later(tmp_path: Path) -> None:
    path = tmp_path / "later" / "trades.jsonl"
    with TradeLog(path) as log:
        assert log.add(report_record(1)) is not None
        assert log.problem is not None
        assert "No such file" in log.problem
        path.parent.mkdir()
        log.add(report_record(2))

    assert [json.loads(line)["report_id"] for line in path.read_text().splitlines()] == ["r1", "r2"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_write_that_was_cut_short_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "trades.jsonl", os.write
    with TradeLog(path) as log:
        log.add(report_record(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda file, content: write(file, content[:20]))
            log.add(report_record(2))
        assert log.problem is not None
        log.add(report_record(3))

    ids = [json.loads(line)["report_id"] for line in path.read_text().splitlines()]
    assert ids == ["r1", "r2", "r3"]


@pytest.mark.parametrize("left", [0, 50, 300])
def test_a_log_that_lost_lines_goes_on_and_says_so(tmp_path: Path, left: int) -> None:
    path = tmp_path / "trades.jsonl"
    with TradeLog(path) as log:
        for number in range(3):
            log.add(report_record(number))
        state = log.state_dict()
    os.truncate(path, left)

    with TradeLog(path) as log:
        log.load_state_dict(state)
        log.add(report_record(9))
        assert log.problem is not None
        assert "has lost" in log.problem

    ids = [json.loads(line)["report_id"] for line in path.read_text().splitlines()]
    assert ids[-1] == "r9"
    assert len(ids) == (2 if left == 300 else 1)


def test_the_trades_of_a_live_journal_are_those_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal, TradeLog(tmp_path / "trades.jsonl") as log:
        told = [
            log.add(journal.append("decision", orders=[order_fields(ORDER)])),
            log.add(journal.append("report", **report_fields(fill("r1", 3.0)))),
        ]

    assert [trade for trade in told if trade is not None] == trades_of(path)
    assert trades_of(path) == trades_of(read_journal(path))
