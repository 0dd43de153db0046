"""A paper broker killed at any point is rebuilt from its ledger."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.data import Bar
from sekai.error import JournalError
from sekai.live.journal import Journal, read_journal
from sekai.live.orders import BrokerOrder
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults
from sekai.market import Execution
from tests.live.sessions import world
from tests.live.trading import WORLDS, account_of, rows_of
from tests.live.worlds import ticks

WORLD = WORLDS[0]
CARRY = Execution(unfilled="carry", participation=0.0001)
FAULTS = PaperFaults(
    seed=3, reject=0.1, fill_before_acknowledgement=0.3, partial_fill=0.3, latency_bars=1,
    duplicate_report=0.2, reorder_reports=0.5,
)  # fmt: skip


def broker_on(ledger: Path, **changed: Any) -> PaperBroker:
    given = {"faults": FAULTS, "clock": ticks(), **changed}
    return PaperBroker(account_of(WORLD, given.pop("execution", CARRY)), ledger, **given)


def orders(row: int) -> list[BrokerOrder]:
    return [
        BrokerOrder(
            id=f"{row}-{asset}", asset=asset, units=units * (row + 1), reference_price=100.0
        )
        for asset, units in (("A", 11.0), ("B", -17.0), ("C", 3.0))
        if (row + ord(asset)) % 3
    ]


async def play(broker: PaperBroker) -> None:
    """Repeat all calls from the first row on; those done before have no effect."""
    for number, row in enumerate(rows_of(WORLD)):
        for each in orders(number):
            await broker.submit(each)
        if number == 4:
            await broker.cancel("4-B")
        await broker.see(row)
        await broker.reports()


async def facts(broker: PaperBroker) -> tuple[Any, ...]:
    account = await broker.account()
    known = await broker.known([each.id for row in range(8) for each in orders(row)])
    said = {
        name: [(one.id, one.kind, one.units, one.price, one.cost) for one in state.reports]
        for name, state in known.items()
    }
    return account.cash, account.units, account.open_units, account.costs, said


async def finished(ledger: Path) -> tuple[Any, ...]:
    broker = broker_on(ledger)
    await play(broker)
    found = await facts(broker)
    await broker.close()
    return found


def test_killed_after_any_record_and_gone_on_is_as_never_killed(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    never_killed = asyncio.run(finished(whole))
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2 + len(rows_of(WORLD)) + sum(len(orders(row)) for row in range(8)) + 1

    for count in range(len(lines)):
        # The line after it is torn, as a kill in mid-write leaves it.
        ledger = tmp_path / f"{count}.jsonl"
        ledger.write_bytes(b"".join(lines[:count]) + lines[count][: len(lines[count]) // 2])

        assert asyncio.run(finished(ledger)) == never_killed


def test_a_broker_that_is_rebuilt_is_the_same_to_the_bit_and_says_again_what_it_said_last(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        broker = broker_on(tmp_path / "paper.jsonl", faults=None)
        await play(broker)
        before = await facts(broker)
        await broker.submit(orders(8)[0])
        said = await broker.reports()
        await broker.cancel(orders(8)[0].id)
        said += await broker.reports()
        await broker.submit(BrokerOrder(id="last", asset="A", units=1.0, reference_price=1.0))
        await broker.close()

        again = broker_on(tmp_path / "paper.jsonl", faults=None)

        # The one who asked last may have died of it; who did not knows it by its id.
        repeated, report = await again.reports()
        assert repeated == said[-1]
        assert (report.order_id, report.kind) == ("last", "acknowledged")
        assert await again.reports() == []
        assert await facts(again) == before
        await again.submit(BrokerOrder(id="last", asset="A", units=1.0, reference_price=1.0))
        assert await again.reports() == []
        await again.close()

    asyncio.run(scene())


async def play_some(broker: PaperBroker, saved: set[int], stop: int) -> None:
    """Play the first rows, with a snapshot after some of them, while reports are late or not."""
    for number, row in enumerate(rows_of(WORLD)[:stop]):
        for each in orders(number):
            await broker.submit(each)
        await broker.see(row)
        if number % 3:
            await broker.reports()
        if number in saved:
            broker.save_snapshot()
        if number == 5:
            await broker.cancel("5-A")
            await broker.reports()


async def everything(broker: PaperBroker) -> tuple[Any, ...]:
    """All that a broker answers now and later."""
    before = await facts(broker)
    reports = [await broker.reports() for _ in range(2)]
    account = await broker.account()
    rest = []
    for number, row in enumerate(rows_of(WORLD)):
        await broker.see(row)
        for each in orders(number + 10):
            await broker.submit(each)
        rest.append(await broker.reports())
    found = await facts(broker)
    await broker.close()
    return before, reports, account.row_costs, account.row_traded, rest, found


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["plain", "faults"])
@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("stop", range(1, 8))
def test_from_a_snapshot_a_broker_is_rebuilt_as_from_its_whole_ledger(
    tmp_path: Path, faults: PaperFaults | None, delay: int, stop: int
) -> None:
    async def scene(saved: set[int], name: str, *, keeps: bool) -> tuple[Any, ...]:
        ledger = tmp_path / name / "paper.jsonl"
        ledger.parent.mkdir()
        settings: dict[str, Any] = {"faults": faults, "delay": delay, "clock": lambda: 7}
        # Restarted in the middle, so that a snapshot follows a recovery.
        for rows in (stop // 2, stop):
            broker = broker_on(ledger, **settings)
            await play_some(broker, saved, rows)
            await broker.close()
        if not keeps:
            for file in ledger.parent.glob("*.snapshot.*.json"):
                file.unlink()
        again = broker_on(ledger, **settings)
        assert again._ledger is not None
        assert (again._ledger.state is not None) == (keeps and bool(saved & set(range(stop))))
        return await everything(again)

    for saved in ({0}, {0, 2, 4}, {1, 3, 5, 6}, set(range(8))):
        name = f"{len(saved)}"
        whole = asyncio.run(scene(saved, f"whole {name}", keeps=False))
        assert asyncio.run(scene(saved, f"saved {name}", keeps=True)) == whole


def test_a_ledger_with_snapshots_killed_after_any_record_goes_on_as_never_killed(
    tmp_path: Path,
) -> None:
    async def some(ledger: Path, *, saves: bool) -> tuple[Any, ...]:
        broker = broker_on(ledger)
        for number, row in enumerate(rows_of(WORLD)):
            for each in orders(number):
                await broker.submit(each)
            if number == 4:
                await broker.cancel("4-B")
            await broker.see(row)
            await broker.reports()
            if saves and number % 2:
                broker.save_snapshot()
        found = await facts(broker)
        await broker.close()
        return found

    never_killed = asyncio.run(some(tmp_path / "paper.jsonl", saves=False))
    whole = tmp_path / "whole" / "paper.jsonl"
    whole.parent.mkdir()
    assert asyncio.run(some(whole, saves=True)) == never_killed
    segments = sorted(whole.parent.glob("paper*.jsonl"), key=lambda file: (len(file.name), file))
    assert len(segments) == 5
    snapshots = list(whole.parent.glob("*.snapshot.*.json"))
    for last, segment in enumerate(segments):
        lines = segment.read_bytes().splitlines(keepends=True)
        for count in range(len(lines)):
            folder = tmp_path / f"{last} {count}"
            folder.mkdir()
            for file in (*segments[:last], *snapshots):
                (folder / file.name).write_bytes(file.read_bytes())
            torn = lines[count][: len(lines[count]) // 2]
            (folder / segment.name).write_bytes(b"".join(lines[:count]) + torn)

            assert asyncio.run(some(folder / "paper.jsonl", saves=True)) == never_killed


def test_a_restart_of_a_broker_reads_no_record_before_its_snapshot(tmp_path: Path) -> None:
    place, counts = world(rows=400), []

    async def scene() -> None:
        for stop in (100, 200, 400):
            broker = place.broker(tmp_path / "paper.jsonl")
            for number, bar in enumerate(Bar.each(place.data, place.known, stop), place.known):
                await broker.see(bar)
                if number % 50 == 40:
                    broker.save_snapshot()
            await broker.close()
            again = place.broker(tmp_path / "paper.jsonl")
            assert again._ledger is not None
            counts.append(len(list(again._ledger.past_records())))
            await again.close()

    asyncio.run(scene())

    assert counts == [10, 10, 10]


def test_what_was_said_after_the_last_record_is_said_again(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = broker_on(tmp_path / "paper.jsonl", faults=None)
        await broker.submit(orders(0)[0])
        await broker.see(rows_of(WORLD)[0])
        said = await broker.reports()
        await broker.close()

        again = broker_on(tmp_path / "paper.jsonl", faults=None)

        assert [one.kind for one in said] == ["acknowledged", "filled"]
        assert await again.reports() == said
        assert await again.reports() == []
        await again.close()

    asyncio.run(scene())


def kinds_in(ledger: Path) -> list[str]:
    return [str(record.kind) for record in read_journal(ledger)][2:]


def test_rows_that_are_held_are_written_when_asked_and_before_anything_else(
    tmp_path: Path,
) -> None:
    ledger, rows = tmp_path / "paper.jsonl", rows_of(WORLD)

    async def scene() -> None:
        broker = broker_on(ledger, faults=None)
        broker.hold()
        await broker.see(rows[0])
        await broker.account()
        assert kinds_in(ledger) == []
        broker.write_held()
        assert kinds_in(ledger) == ["bar"]

        broker.hold()
        await broker.see(rows[1])
        assert kinds_in(ledger) == ["bar"]
        await broker.submit(BrokerOrder(id="far", asset="A", units=1e9, reference_price=1.0))
        assert kinds_in(ledger) == ["bar", "bar", "order"]

        broker.hold()
        await broker.see(rows[2])
        assert kinds_in(ledger) == ["bar", "bar", "order"]
        await broker.cancel("far")
        assert kinds_in(ledger) == ["bar", "bar", "order", "bar", "cancel"]

        await broker.see(rows[3])
        assert kinds_in(ledger) == ["bar", "bar", "order", "bar", "cancel", "bar"]
        await broker.close()

    asyncio.run(scene())


def test_a_row_that_was_held_and_never_written_was_never_seen(tmp_path: Path) -> None:
    async def scene() -> tuple[Any, ...]:
        broker = broker_on(tmp_path / "paper.jsonl")
        await broker.submit(orders(0)[0])
        broker.hold()
        await broker.see(rows_of(WORLD)[0])
        await broker.reports()
        await broker.close()
        return await finished(tmp_path / "paper.jsonl")

    assert asyncio.run(scene()) == asyncio.run(finished(tmp_path / "whole.jsonl"))


def test_everything_is_written(tmp_path: Path) -> None:
    asyncio.run(finished(tmp_path / "paper.jsonl"))

    records = list(read_journal(tmp_path / "paper.jsonl"))

    kinds = [record.kind for record in records]
    assert kinds[:2] == ["session", "account"]
    assert kinds.count("bar") == len(rows_of(WORLD))
    assert kinds.count("order") == sum(len(orders(row)) for row in range(8))
    assert kinds.count("cancel") == 1
    assert len(kinds) == 2 + kinds.count("bar") + kinds.count("order") + 1
    reports = [report[0] for record in records[2:] for report in record.fields["reports"]]
    assert len(set(reports)) == len(reports)
    said = sum(count for record in records[2:] for count in record.fields["sent"])
    assert 0 < said < len(reports)


def test_a_row_that_the_account_refuses_leaves_no_record_and_changes_nothing(
    tmp_path: Path,
) -> None:
    bad = dataclasses.replace(rows_of(WORLD)[0], values=np.ones((2, 2)))

    async def scene() -> None:
        broker = broker_on(tmp_path / "paper.jsonl", faults=None)
        await broker.submit(orders(0)[0])
        before = (tmp_path / "paper.jsonl").read_bytes()

        with pytest.raises(ValueError, match="a row must have 3 assets"):
            await broker.see(bad)

        assert (tmp_path / "paper.jsonl").read_bytes() == before
        assert (broker.last_time, (await broker.account()).units["A"]) == (None, 0.0)
        await broker.see(rows_of(WORLD)[0])
        assert (await broker.account()).units["A"] != 0.0
        await broker.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"faults": PaperFaults(seed=4)}, "begun with other settings: faults"),
        ({"delay": 1}, "begun with other settings: delay 1, the ledger has 0"),
        ({"execution": Execution()}, "begun with other settings: execution"),
    ],
)
def test_a_ledger_that_began_otherwise_is_refused(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    asyncio.run(finished(tmp_path / "paper.jsonl"))

    with pytest.raises(JournalError, match=words):
        broker_on(tmp_path / "paper.jsonl", **changed)


def test_a_ledger_that_tells_of_another_market_is_refused(tmp_path: Path) -> None:
    asyncio.run(finished(tmp_path / "paper.jsonl"))

    with pytest.raises(JournalError, match="begun with other settings: history"):
        PaperBroker(account_of(WORLDS[1], CARRY), tmp_path / "paper.jsonl", FAULTS)


def test_a_ledger_of_another_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with Journal(tmp_path / "paper.jsonl", sync="never") as journal:
        journal.append("account", opening={"cash": 1.0, "units": {}})

    with pytest.raises(JournalError, match=r"ledger format 1, expected 4; .*another file"):
        broker_on(tmp_path / "paper.jsonl")


def test_a_ledger_of_rows_that_the_account_has_already_is_refused(tmp_path: Path) -> None:
    asyncio.run(finished(tmp_path / "paper.jsonl"))
    later = account_of(WORLD, CARRY)
    later.advance(rows_of(WORLD)[0])

    with pytest.raises(JournalError, match="the replay of record 4 is refused"):
        PaperBroker(later, tmp_path / "paper.jsonl", FAULTS)


def test_two_brokers_cannot_have_one_ledger(tmp_path: Path) -> None:
    first = broker_on(tmp_path / "paper.jsonl")

    with pytest.raises(JournalError):
        broker_on(tmp_path / "paper.jsonl")

    asyncio.run(first.close())


@pytest.mark.parametrize("call", ["submit", "see", "cancel"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "no space left"), JournalError),
        (KeyboardInterrupt("no space left"), KeyboardInterrupt),
    ],
)
def test_what_cannot_be_written_is_not_answered_and_is_not_there_afterwards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: BaseException,
    raised: type[BaseException],
) -> None:
    order = BrokerOrder(id="late", asset="A", units=1.0, reference_price=1.0)

    def full(file: int, text: bytes) -> int:
        raise error

    async def act(broker: PaperBroker) -> None:
        if call == "submit":
            await broker.submit(order)
        elif call == "see":
            await broker.see(rows_of(WORLD)[0])
        else:
            await broker.cancel("early")

    async def scene() -> None:
        broker = broker_on(tmp_path / "paper.jsonl", faults=None)
        await broker.submit(BrokerOrder(id="early", asset="A", units=1.0, reference_price=1.0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(raised, match="no space left"):
                await act(broker)
        for ask in (lambda: act(broker), broker.account, broker.reports):
            with pytest.raises(JournalError, match="paper broker stopped, its ledger is behind"):
                await ask()
        await broker.close()

        again = broker_on(tmp_path / "paper.jsonl", faults=None)
        assert list(await again.known(["early", "late"])) == ["early"]
        assert (again.last_time, (await again.account()).units["A"]) == (None, 0.0)
        assert len(await again.reports()) == 1
        await act(again)
        await again.close()

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["session", "session/paper.jsonl"])
def test_the_folder_of_a_ledger_is_created(tmp_path: Path, name: str) -> None:
    path = tmp_path / "live" / name

    broker = PaperBroker.like(world().env(), path)

    assert (tmp_path / "live" / "session" / "paper.jsonl").is_file()
    asyncio.run(broker.close())
    again = PaperBroker.like(world().env(), str(tmp_path / "live" / "session"))
    assert asyncio.run(again.account()).cash == asyncio.run(broker.account()).cash
    asyncio.run(again.close())
