"""An interrupted session resumes by its rules, after any time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import itertools
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import Bar
from sekai.error import JournalError
from sekai.live import (
    BarEvent,
    FeedEvent,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    Parity,
    ReplayFeed,
    RiskLimits,
    SessionFolder,
    SessionStatus,
    check_parity,
    read_journal,
    read_status,
    trades_of,
)
from sekai.live.journal import JournalRecord
from sekai.live.journal.records import segment_path
from sekai.live.journal.session import SessionJournal
from sekai.live.recovery import recorded_rows
from sekai.live.snapshot import read_snapshot
from sekai.market import Costs, Execution, MarginAccount
from tests.live.sessions import FREE, World, follow, session, snapshots, world

NEVER_STALE = dataclasses.replace(FREE, max_staleness_seconds=None)
SOON_STALE = dataclasses.replace(FREE, max_staleness_seconds=0.05)
EQUAL = np.full(4, 0.25)
CARRIED = Execution(sizing="decision", participation=1e-7, unfilled="carry")


class Killed(BaseException):
    """Exception that no session handles."""


def run(place: World, folder: Path, broker: PaperBroker | None = None, **more: Any) -> Any:
    """Run a session with a broker that keeps a ledger."""
    folder.mkdir(exist_ok=True)
    broker = broker or place.broker(SessionFolder(folder).paper)
    return session(place, folder, broker=broker, **{"limits": NEVER_STALE, **more})


def killed_before_sending(place: World, folder: Path, row: int) -> None:
    """Kill a session between the journaled decision of a row and its orders."""
    folder.mkdir()
    broker = place.broker(SessionFolder(folder).paper)
    submit = broker.submit

    async def dies(order: Any) -> None:
        if is_of_row(order.id, folder, row):
            raise Killed
        await submit(order)

    broker.submit = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        run(place, folder, broker)


def killed_before_deciding(place: World, folder: Path, row: int) -> None:
    calls = itertools.count(1)

    def dies(observation: Any) -> Any:
        if next(calls) == row:
            raise Killed
        return follow(observation)

    with pytest.raises(Killed):
        run(place, folder, policy=dies)


def taken(folder: Path, row: int) -> list[str]:
    """Orders of a row that the broker accepted."""
    records = read_journal(SessionFolder(folder).paper)
    ids = [record.fields["id"] for record in records if record.kind == "order"]
    return [one for one in ids if is_of_row(one, folder, row)]


def is_of_row(order_id: str, folder: Path, row: int) -> bool:
    return re.fullmatch(rf"{re.escape(folder.name)}\.\w+-{row}-\w+", order_id) is not None


def kinds(folder: Path) -> Counter[str]:
    return Counter(record.kind for record in read_journal(SessionFolder(folder).journal))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "session"


def test_a_session_without_a_row_goes_on(folder: Path) -> None:
    place = world()
    run(place, folder, feed=place.feed(stop=place.known))

    assert run(place, folder).bars == 60


def scribbling(observation: Any) -> np.ndarray:
    """The same policy, which overwrites its observation."""
    action = follow(observation)
    for part in observation.values():
        part[...] = 1
    return action


def test_a_policy_that_writes_into_what_it_is_shown_changes_nothing_else(tmp_path: Path) -> None:
    place, digests = world(), []
    for policy in (follow, scribbling):
        folder = tmp_path / policy.__name__
        run(place, folder, policy=policy, feed=place.feed(stop=place.known + 20), snapshot_every=7)
        rows = list(recorded_rows(read_journal(SessionFolder(folder).journal), place.env().assets))
        digests.append([row.digest for row in rows])

    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 20
    # It goes on from a snapshot of what it was shown.
    assert run(place, tmp_path / "scribbling", policy=scribbling).bars == 60
    assert check_parity(tmp_path / "scribbling", place.env()) == Parity(rows=60, equal=60)


def test_rows_that_the_history_has_are_no_news(folder: Path) -> None:
    place = world()

    status = run(place, folder, feed=ReplayFeed(place.data, place.known - 10))

    assert status.bars == 60


@pytest.mark.parametrize(
    ("limits", "rests", "sent"), [(NEVER_STALE, 0.0, 3), (SOON_STALE, 0.1, 0)], ids=["soon", "late"]
)
def test_orders_that_never_left_are_sent_after_a_restart_unless_they_are_old(
    folder: Path, limits: RiskLimits, rests: float, sent: int
) -> None:
    place = world()
    killed_before_sending(place, folder, 5)
    time.sleep(rests)

    run(place, folder, feed=place.feed(stop=place.known + 5), limits=limits)

    assert len(taken(folder, 5)) == sent
    assert kinds(folder)["denied"] == 3 - sent


@pytest.mark.parametrize(
    ("limits", "rests", "sent"), [(NEVER_STALE, 0.0, 3), (SOON_STALE, 0.1, 0)], ids=["soon", "late"]
)
def test_a_row_that_came_long_before_a_restart_moves_no_money(
    folder: Path, limits: RiskLimits, rests: float, sent: int
) -> None:
    place = world()
    killed_before_deciding(place, folder, 5)
    time.sleep(rests)

    status = run(place, folder, feed=place.feed(stop=place.known + 5), limits=limits)

    assert (status.decisions, status.orders_refused) == (5, 3 - sent)
    assert len(taken(folder, 5)) == sent


def test_a_pulled_switch_keeps_orders_from_leaving_after_a_restart(folder: Path) -> None:
    place = world()
    killed_before_sending(place, folder, 5)
    SessionFolder(folder).kill.touch()

    run(place, folder)

    assert taken(folder, 5) == []
    assert run(place, folder).state == "killed"


@pytest.mark.parametrize("on_kill", ["hold", "flatten"])
def test_a_switch_that_was_pulled_in_between_is_obeyed_in_full(folder: Path, on_kill: str) -> None:
    place = world(execution=CARRIED)
    killed_before_deciding(place, folder, 5)
    SessionFolder(folder).kill.touch()
    broker = place.broker(SessionFolder(folder).paper)
    assert asyncio.run(broker.account()).open_units

    status = run(place, folder, broker, feed=place.feed(stop=place.known + 20), on_kill=on_kill)

    account = asyncio.run(place.broker(SessionFolder(folder).paper).account())
    assert account.open_units == {}
    assert bool(status.positions) == (on_kill == "hold")
    assert not [r for r in range(5, 25) for name in taken(folder, r) if ".close" not in name]


def is_kill_seen(folder: Path) -> bool:
    """Return True once the watchdog has journaled the kill, after it closed submissions."""
    try:
        return any(record.kind == "kill" for record in read_journal(SessionFolder(folder).watchdog))
    except (JournalError, FileNotFoundError):
        return False


def test_pulled_while_orders_leave_the_switch_holds_back_the_others(folder: Path) -> None:
    place = world()
    folder.mkdir()
    broker = place.broker(SessionFolder(folder).paper)
    submit = broker.submit

    async def pulls(order: Any) -> None:
        SessionFolder(folder).kill.touch()
        while not is_kill_seen(folder):
            await asyncio.sleep(0.005)
        await submit(order)

    broker.submit = pulls  # type: ignore[method-assign]
    status = run(place, folder, broker)

    assert status.state == "killed"
    assert len(taken(folder, 1)) == 1
    assert kinds(folder)["denied"] == 2


def test_the_rate_of_orders_is_counted_from_before_a_restart(folder: Path) -> None:
    place = world()
    limits = dataclasses.replace(NEVER_STALE, max_orders_per_minute=9)
    run(place, folder, feed=Live(place.data, place.known), bars=3, limits=limits)

    status = run(place, folder, feed=Live(place.data, place.known), bars=3, limits=limits)

    assert (status.orders_sent, status.orders_refused) == (9, 9)
    assert status.refusals == {"max_orders_per_minute": 9}


@pytest.mark.parametrize("seconds", [20, 60])
def test_the_order_rate_of_a_replay_is_measured_by_its_rows(folder: Path, seconds: int) -> None:
    place = with_rows_every(seconds)
    limits = dataclasses.replace(NEVER_STALE, max_orders_per_minute=6)
    parts = [run(place, folder, bars=bars, limits=limits) for bars in (4, 5)]

    # Three orders a row: rows of a minute keep the limit at any speed, and so does every third
    # and fourth row of 20 seconds; restarts do not reset it.
    allowed = {20: [9, 18], 60: [12, 27]}[seconds]
    assert [status.orders_sent for status in parts] == allowed
    assert parts[1].orders_refused == 27 - allowed[1]


def test_the_end_of_a_session_says_that_orders_were_refused(folder: Path) -> None:
    place = with_rows_every(20)
    limits = dataclasses.replace(NEVER_STALE, max_orders_per_minute=6)

    status = run(place, folder, bars=9, limits=limits)

    assert status.state == "stopped"
    assert status.reason == "9 orders were refused by risk limits: max_orders_per_minute 9"
    assert run(world(), folder.parent / "other", bars=9).reason == ""


COUNTS = ("bars", "decisions", "orders_sent", "orders_refused", "refusals", "fills", "costs")


@pytest.mark.parametrize("snapshot_every", [4, 1000])
def test_counts_continue_over_restarts(tmp_path: Path, snapshot_every: int) -> None:
    place = world()
    held: dict[str, Any] = {"snapshot_every": snapshot_every, "policy": lambda _: EQUAL}
    limits = dataclasses.replace(NEVER_STALE, max_order_notional=26_000.0)
    whole = run(place, tmp_path / "whole", bars=20, limits=limits, **held)

    parts = [
        run(place, tmp_path / "parts", bars=bars, limits=limits, **held) for bars in (3, 7, 9, 1)
    ]

    assert whole.fills > 0
    assert whole.costs["commission"] > 0
    assert [status.bars for status in parts] == [3, 10, 19, 20]
    # The last row's orders are cancelled at each stop, and so never filled.
    assert parts[-1].fills <= whole.fills
    for name in ("bars", "decisions"):
        assert getattr(parts[-1], name) == getattr(whole, name)
    read = list(read_journal(SessionFolder(tmp_path / "parts").journal))
    assert parts[-1].fills == sum(
        record.kind == "report" and record.fields["kind"] == "filled" for record in read
    )
    assert parts[-1].orders_sent == sum(record.kind == "sent" for record in read)


def test_counts_of_a_crashed_session_are_those_of_a_whole_one(folder: Path) -> None:
    place = world()
    whole = run(place, folder.parent / "whole", bars=9)
    killed_before_sending(place, folder, 5)

    status = run(place, folder, feed=place.feed(stop=place.known + 9))

    for name in COUNTS:
        assert getattr(status, name) == getattr(whole, name), name


def with_rows_every(seconds: int) -> World:
    """A market with a row every so many seconds."""
    place = world()
    times = place.data.times[0] + np.arange(len(place.data)) * np.timedelta64(seconds, "s")
    return World(place.data.replace(times=times, frequency=None), place.known, place.settings)


class Live(ReplayFeed):
    """Rows that count as live."""

    is_replay = False


def test_rows_that_were_missed_are_taken_in_and_not_traded_on(folder: Path) -> None:
    place = world()
    run(place, folder, bars=10)

    class Remembers(ReplayFeed):
        async def since(self, exchange_time: int) -> list[FeedEvent]:
            events = [self._event(row) for row in range(place.known, place.known + 15)]
            return [event for event in events if event.exchange_time > exchange_time]

    status = run(place, folder, feed=Remembers(place.data, place.known, stop_row=place.known + 16))

    assert (status.bars, status.decisions) == (16, 11)


def test_what_is_held_is_compared_with_what_was_held_before(folder: Path) -> None:
    place = world()
    run(place, folder, bars=10)

    status = run(place, folder, place.broker(), bars=1, account_lag_seconds=0.0)

    assert [
        alert
        for alert in status.alerts
        if "account not explained by own orders" in alert and "A000" in alert
    ]


def test_a_session_that_goes_on_knows_its_account_before_a_row_comes(folder: Path) -> None:
    place = world()
    first = run(place, folder, bars=10)

    again = run(place, folder, feed=place.feed(stop=place.known))

    assert (again.equity, again.cash, again.profit) == (first.equity, first.cash, first.profit)
    assert again.positions == first.positions


def test_a_ruined_account_halts_a_session_for_good(folder: Path) -> None:
    data = world().data
    values = data.values.copy()
    values[60:] *= 0.05
    margin = {"account": MarginAccount(leverage=3.0, maintenance=0.05)}
    place = World(data.replace(values=values), 40, margin)
    off = RiskLimits.from_dict(dict.fromkeys(RiskLimits().to_dict(), "off"))

    found = [run(place, folder, policy=_on_credit, limits=off) for _ in range(2)]

    assert [status.state for status in found] == ["halted", "halted"]
    assert [status.bars for status in found] == [21, 21]
    assert found[0].equity == found[1].equity < 0


@pytest.mark.parametrize("wrong", ["price", "shape"])
def test_a_row_that_is_none_is_told_of_and_passed_over(folder: Path, wrong: str) -> None:
    place = world(rows=60)

    class Wrong(ReplayFeed):
        def _event(self, row: int) -> BarEvent:
            event = super()._event(row)
            if row != place.known + 4:
                return event
            values = -np.asarray(event.bar.values) if wrong == "price" else np.ones((2, 5))
            return dataclasses.replace(event, bar=Bar(event.bar.time, values))

    status = run(place, folder, feed=Wrong(place.data, place.known, stop_row=place.known + 10))

    assert (status.state, status.bars) == ("stopped", 9)
    assert "malformed row rejected" in status.alerts[0]
    assert kinds(folder)["notice"] == 1
    assert run(place, folder).bars == 19


def test_a_snapshot_that_knows_more_than_the_journal_is_not_used(folder: Path) -> None:
    place = world()
    run(place, folder, bars=20)
    journal = SessionFolder(folder).journal
    # A power cut lost the last rows, and the segment that followed them.
    segment_path(journal, 2).unlink()
    lines = journal.read_bytes().splitlines(keepends=True)
    bars = [number for number, line in enumerate(lines) if b'"kind":"bar"' in line]
    journal.write_bytes(b"".join(lines[: bars[15]]))

    status = run(place, folder, place.broker())

    assert status.bars == 60
    assert any("newer than the journal" in alert for alert in status.alerts)


@pytest.mark.parametrize("damage", ["torn", "foreign", "missing"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_snapshot_that_cannot_be_used_leaves_the_one_before(
    tmp_path: Path, folder: Path, damage: str, count: int
) -> None:
    place = world()
    run(place, folder, bars=20, snapshot_every=8)
    other = tmp_path / "other"
    run(place, other, bars=20, snapshot_every=8, policy=lambda _: EQUAL)
    newest = sorted(snapshots(folder), key=lambda file: read_snapshot(file).position.number)
    for file in newest[-count:]:
        if damage == "torn":
            file.write_bytes(file.read_bytes()[:-9])
        elif damage == "foreign":
            file.write_bytes((other / file.name).read_bytes())
        else:
            file.unlink()

    status = run(place, folder, snapshot_every=8)

    assert status.bars == 60
    used = [alert for alert in status.alerts if "not used" in alert]
    assert len(used) == (0 if damage == "missing" else count)
    assert check_parity(folder, place.env()) == Parity(rows=60, equal=60)


def test_damage_before_the_snapshot_is_found_by_those_who_read_it(folder: Path) -> None:
    place = world()
    run(place, folder, bars=20, snapshot_every=8)
    journal = SessionFolder(folder).journal
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(content)

    assert run(place, folder, bars=10, snapshot_every=8).bars == 30

    with pytest.raises(JournalError, match=r"line \d+ of"):
        check_parity(folder, place.env())
    with pytest.raises(JournalError, match=r"line \d+ of"):
        list(read_journal(journal))


def test_every_altered_byte_after_the_snapshot_is_found(folder: Path) -> None:
    place = world()
    run(place, folder, bars=20, snapshot_every=8)
    last = sorted(folder.glob("journal.0*.jsonl"))[-1]
    content = last.read_bytes()
    assert content.count(b"\n") >= 3, "a first record, snapshot, stopped"

    for index in range(len(content)):
        changed = bytearray(content)
        changed[index] ^= 1
        last.write_bytes(changed)
        with contextlib.suppress(JournalError):
            # Damage of the last line cannot be told from a write that was interrupted.
            journal = SessionJournal(SessionFolder(folder), "never", place.broker())
            journal.close()
            assert journal.torn, index


@pytest.mark.parametrize("call", ["write", "open", "ftruncate"])
def test_a_trade_log_without_room_stops_no_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    place = world()
    run(place, folder, bars=10, snapshot_every=4)
    trades, real = SessionFolder(folder).trades, getattr(os, call)
    with trades.open("ab") as file:
        file.write(b"torn")

    def full(file: Any, *rest: Any) -> Any:
        target = file if isinstance(file, (str, Path)) else os.readlink(f"/proc/self/fd/{file}")
        if Path(target).name == trades.name:
            raise OSError(errno.ENOSPC, "no space left")
        return real(file, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        status = run(place, folder, bars=10, snapshot_every=4)

    assert (status.state, status.bars) == ("stopped", 20)
    assert [alert for alert in status.alerts if "trade log cannot be written" in alert]
    assert run(place, folder, snapshot_every=4).bars == 60
    wanted = [trade.report_id for trade in trades_of(SessionFolder(folder).journal)]
    lines = trades.read_text().splitlines()
    assert [json.loads(line)["report_id"] for line in lines] == wanted


def test_a_record_that_was_cut_off_raises_an_alert(folder: Path) -> None:
    place = world()
    run(place, folder, bars=10)
    with sorted(folder.glob("journal.0*.jsonl"))[-1].open("ab") as file:
        file.write(b"0123")

    status = run(place, folder)

    assert status.bars == 60
    assert any("incomplete last record" in alert for alert in status.alerts)


def test_a_snapshot_that_cannot_be_written_stops_no_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real = world(), os.replace

    def full(draft: Any, path: Any) -> None:
        if "snapshot" in Path(path).name:
            raise OSError(errno.ENOSPC, "no space left")
        real(draft, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        status = run(place, folder, bars=10, snapshot_every=4)

    assert (status.state, status.bars) == ("stopped", 10)
    assert any("no snapshot saved" in alert for alert in status.alerts)
    assert run(place, folder).bars == 60
    assert check_parity(folder, place.env()) == Parity(rows=60, equal=60)


def test_a_restart_reads_no_record_before_the_snapshot(folder: Path) -> None:
    place = world(rows=300)
    counts = []
    for stop in (100, 200, 300):
        run(place, folder, feed=place.feed(stop=stop), snapshot_every=10)
        journal = SessionJournal(SessionFolder(folder), "never", place.broker())
        counts.append((len(list(journal.replay())), journal.count))
        journal.close()

    assert [read for read, _ in counts] == [counts[0][0]] * 3
    assert counts[2][1] > 2 * counts[0][1] > 20 * counts[0][0]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (world(seed=9), "digest of the data"),
        (world(known=41), "rows of history 41, the journal has 40"),
        (world(lookback=5), "digest of the first observation"),
        (world(costs=Costs(proportional=0.01)), "the snapshot is of another env"),
    ],
    ids=["data", "history", "lookback", "rules"],
)
def test_a_session_of_another_env_is_refused(folder: Path, place: World, words: str) -> None:
    run(world(), folder, bars=5)

    with pytest.raises(JournalError, match=words):
        session(place, folder)


def test_a_runner_runs_once(folder: Path) -> None:
    place = world()

    async def twice() -> None:
        runner = LiveRunner(follow, place.env(), place.feed(), place.broker(), folder)
        await runner.run(2)
        await runner.run(2)

    with pytest.raises(RuntimeError, match="create another on the same folder"):
        asyncio.run(twice())


def test_who_cannot_open_a_session_lets_go_of_its_broker(folder: Path) -> None:
    place = world()
    run(place, folder, bars=5)

    async def both() -> SessionStatus:
        first = LiveRunner(follow, place.env(), place.feed(), place.broker(), folder)
        async with first._opened():
            second = place.broker(SessionFolder(folder).paper)
            with pytest.raises(JournalError, match="a session runs once"):
                await LiveRunner(follow, place.env(), place.feed(), second, folder).run()
        return read_status(SessionFolder(folder).status)

    asyncio.run(both())

    assert run(place, folder).bars == 60


@pytest.mark.parametrize("is_saved", [True, False], ids=["snapshot", "replay"])
def test_an_asset_that_was_removed_stays_so_over_restarts(folder: Path, is_saved: bool) -> None:
    place = world(rows=60)
    folder.mkdir()
    config = LiveConfig(limits=NEVER_STALE, sync="never")

    async def some(rows: int, *changes: tuple[int, str, bool]) -> SessionStatus:
        broker = place.broker(SessionFolder(folder).paper)
        feed = _Changing(place.data, place.known)
        runner = LiveRunner(follow, place.env(), feed, broker, folder, config)
        feed.before = lambda row: _change(runner, row - place.known, changes)
        status = await runner.run(rows)
        if not is_saved:
            for file in snapshots(folder):
                file.unlink()
        return status

    held = [
        asyncio.run(some(6, (5, "A001", False))).positions,
        asyncio.run(some(3)).positions,
        asyncio.run(some(4, (10, "A001", True))).positions,
    ]

    assert ["A001" in one for one in held] == [True, False, True]
    assert check_parity(folder, place.env()) == Parity(rows=13, equal=13)


class _Changing(ReplayFeed):
    """Feed that calls a function before each row."""

    before: Any

    async def __anext__(self) -> FeedEvent:
        await self.before(self._row)
        return await super().__anext__()


async def _change(runner: LiveRunner, row: int, changes: Any) -> None:
    for when, asset, is_traded in changes:
        if when == row:
            await (runner.add_asset if is_traded else runner.remove_asset)(asset)


def test_rows_of_a_journal_are_read_one_by_one() -> None:
    fields = {
        "time": 1, "values": np.ones((1, 5)), "market": {}, "exchange_time": 1, "is_late": False,
        "boot": [0, ""],
    }  # fmt: skip

    def endless() -> Iterator[JournalRecord]:
        for number in itertools.count():
            yield JournalRecord(number=number, time=number, kind="bar", fields=fields)

    assert [row.written for row in itertools.islice(recorded_rows(endless(), ("A",)), 3)] == [
        0,
        1,
        2,
    ]


def _on_credit(observation: Any) -> np.ndarray:
    return np.array([1.0, 1.0, 0.9, -1.9])
