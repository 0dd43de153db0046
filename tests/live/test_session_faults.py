"""Faults around a session raise alerts, and leak no secrets and no resources."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from sekai.data import Bar
from sekai.error import BrokerError, JournalError
from sekai.live import (
    BarEvent,
    BrokerAccount,
    Feed,
    FeedEvent,
    LiveConfig,
    LiveRunner,
    PaperFaults,
    QueueFeed,
    SessionFolder,
    SessionStatus,
    read_journal,
    read_status,
)
from sekai.live.events import bar_time
from sekai.market import Execution
from tests.live.sessions import FREE, World, follow, session, world

CONFIG = LiveConfig(limits=FREE, sync="never", retry_seconds=0.001)


class Quiet(Feed):
    """Feed with some rows and then none."""

    def __init__(self, place: World, rows: int) -> None:
        super().__init__()
        self._feed, self._left = place.feed(), rows

    async def __anext__(self) -> FeedEvent:
        if not self._left:
            await asyncio.Event().wait()
        self._left -= 1
        return await self._feed.__anext__()


async def until(is_so: Any, seconds: float = 20.0) -> None:
    for _ in range(int(seconds / 0.005)):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came about")


def everything_written(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.iterdir() if path.is_file())


def test_who_is_cancelled_leaves_a_status_that_says_so(tmp_path: Path) -> None:
    place = world()

    async def run() -> None:
        runner = LiveRunner(follow, place.env(), Quiet(place, 5), place.broker(), tmp_path, CONFIG)
        task = asyncio.ensure_future(runner.run())
        await until(lambda: hasattr(runner, "monitor") and runner.status().bars == 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())

    status = read_status(SessionFolder(tmp_path).status)
    assert status.state == "failed"
    assert "interrupted" in status.reason


def test_who_is_cancelled_and_stopped_at_once_is_cancelled(tmp_path: Path) -> None:
    place = world()

    async def run(is_stopped_first: bool) -> None:
        folder = tmp_path / str(is_stopped_first)
        runner = LiveRunner(follow, place.env(), Quiet(place, 5), place.broker(), folder, CONFIG)
        task = asyncio.ensure_future(runner.run())
        await until(lambda: hasattr(runner, "monitor") and runner.status().bars == 5)
        both = (runner.stop, task.cancel) if is_stopped_first else (task.cancel, runner.stop)
        for one in both:
            one()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run(True))
    asyncio.run(run(False))


class Stopping(Feed):
    """Feed that stops the session while it delivers a row, as a signal would."""

    def __init__(self, place: World, row: int) -> None:
        super().__init__()
        self._feed, self._left = place.feed(), row
        self.stop: Any = None

    async def __anext__(self) -> FeedEvent:
        self._left -= 1
        event = await self._feed.__anext__()
        if self._left == 0:
            self.stop()
        return event


def test_a_stop_in_the_moment_of_a_row_lets_it_be_taken_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world()
    broker = place.broker()
    see = broker.see

    async def see_slowly(bar: Any) -> None:
        await asyncio.sleep(0)
        await see(bar)

    async def run() -> Any:
        feed = Stopping(place, 5)
        monkeypatch.setattr(broker, "see", see_slowly)
        runner = LiveRunner(follow, place.env(), feed, broker, tmp_path, CONFIG)
        feed.stop = runner.stop
        return await runner.run()

    status = asyncio.run(run())

    assert (status.state, status.bars) == ("stopped", 5)


def test_a_status_that_cannot_be_written_stops_no_trading_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world()

    def full(*given: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sekai.live.status.atomic_write", full)
    monkeypatch.setattr("sekai.live.manual_gc.STATUS_SECONDS", 0.0)
    status = session(place, tmp_path)

    assert (status.state, status.bars) == ("stopped", 60)
    told = [alert for alert in status.alerts if "the status cannot be written" in alert]
    assert len(told) == 1
    assert "No space left" in told[0]
    assert "status_lost" in SessionFolder(tmp_path).log.read_text()


def test_a_broker_that_fails_as_well_does_not_hide_why_a_session_failed(tmp_path: Path) -> None:
    # What stands from row to row has to be cancelled in the end.
    carried = Execution(sizing="decision", participation=1e-7, unfilled="carry")
    place = world(execution=carried)
    broker, calls = place.broker(), iter(range(100))

    async def breaks(order_id: str) -> None:
        raise OSError("the line is dead")

    def lost(observation: Any) -> Any:
        if next(calls) < 3:
            return follow(observation)
        broker.cancel = breaks  # type: ignore[method-assign]
        raise RuntimeError("lost its mind")

    with pytest.raises(RuntimeError, match="lost its mind"):
        session(place, tmp_path, broker=broker, policy=lost)

    status = read_status(SessionFolder(tmp_path).status)
    assert "lost its mind" in status.reason
    assert "may remain at the broker: the line is dead" in status.alerts[0]


def test_a_broker_out_of_reach_does_not_keep_a_session_from_ending(tmp_path: Path) -> None:
    place = world()
    broker = place.broker()
    account, calls = broker.account, iter(range(1000))

    async def silent() -> Any:
        if next(calls) > 2:
            raise BrokerError("nobody is there")
        return await account()

    async def run() -> None:
        broker.account = silent  # type: ignore[method-assign]
        runner = LiveRunner(follow, place.env(), Quiet(place, 5), broker, tmp_path, CONFIG)
        task = asyncio.ensure_future(runner.run())
        await until(lambda: hasattr(runner, "monitor") and runner.status().state == "halted")
        runner.stop()
        with pytest.raises(BrokerError, match="nobody is there"):
            await asyncio.wait_for(task, 15.0)

    asyncio.run(run())


def test_a_broker_that_answers_again_does_not_undo_the_kill_switch(tmp_path: Path) -> None:
    place = world()
    broker = place.broker()
    account, asked = broker.account, 0

    async def late() -> BrokerAccount:
        nonlocal asked
        asked += 1
        if asked <= CONFIG.attempts + 1:
            raise BrokerError("one moment")
        return await account()

    async def run() -> SessionStatus:
        runner = LiveRunner(follow, place.env(), Quiet(place, 5), broker, tmp_path, CONFIG)
        task = asyncio.ensure_future(runner.run())
        await until(lambda: hasattr(runner, "monitor") and runner.status().bars == 5)
        broker.account = late  # type: ignore[method-assign]
        runner.switch.pull("enough")
        await until(lambda: bool(runner.status().kill_obeyed) and not broker._orders._open)
        update = asyncio.ensure_future(runner.session.update_account())
        await until(lambda: asked > CONFIG.attempts + 1)
        await until(lambda: not runner._state.holds("broker_lost"))
        await update
        status = runner.status()
        runner.stop()
        await task
        return status

    assert asyncio.run(run()).state == "killed"


def test_pulled_twice_between_two_rows_the_switch_closes_positions_once(tmp_path: Path) -> None:
    place, broker = world(), world().broker()
    config = dataclasses.replace(CONFIG, on_kill="flatten")
    feed = QueueFeed(place.data.rows(0, place.known))
    feed.is_replay = True
    rows = [BarEvent(bar=bar, exchange_time=bar_time(bar)) for bar in Bar.each(place.data, 40, 47)]

    async def run() -> SessionStatus:
        runner = LiveRunner(follow, place.env(), feed, broker, tmp_path, config)
        task = asyncio.ensure_future(runner.run())
        for row in rows[:5]:
            feed.put(row)
        await until(lambda: hasattr(runner, "monitor") and runner.status().bars == 5)
        for time in range(2):
            runner.switch.pull("enough")
            await until(lambda: bool(runner.status().kill_obeyed))
            assert runner.status().state == "killed"
            assert len(broker.resting_orders()) == 3
            if time == 0:
                runner.switch.release()
                await until(lambda: runner.status().state == "trading")
        for row in rows[5:]:
            feed.put(row)
        await until(lambda: runner.status().bars == 7)
        runner.stop()
        await task
        return runner.status()

    status = asyncio.run(run())

    assert status.positions == {}
    assert broker.current_account().is_flat
    orders = [r for r in read_journal(SessionFolder(tmp_path).watchdog) if r.kind == "order"]
    assert len(orders) == 3


def test_no_secret_of_a_broker_or_a_policy_is_written_anywhere(tmp_path: Path) -> None:
    place, secret = world(), "hunter2hunter2"
    broker = place.broker(SessionFolder(tmp_path).paper, PaperFaults(seed=1, reject=0.5))
    reports, calls = broker.reports, iter(range(100))

    async def talkative() -> list[Any]:
        reason = f"GET https://venue.example/order?apiKey={secret} said no"
        return [
            dataclasses.replace(one, reason=reason) if one.kind == "rejected" else one
            for one in await reports()
        ]

    def raises(observation: Any) -> Any:
        if next(calls) == 10:
            raise RuntimeError(f"Authorization: Bearer {secret}")
        return follow(observation)

    broker.reports = talkative  # type: ignore[method-assign]
    SessionFolder(tmp_path).path.mkdir(exist_ok=True)
    with pytest.raises(RuntimeError):
        session(place, tmp_path, broker=broker, policy=raises)

    status = read_status(SessionFolder(tmp_path).status)
    assert any(" rejected: " in alert for alert in status.alerts)
    assert secret not in everything_written(tmp_path)


def test_a_full_disk_is_told_whatever_the_broker_on_the_same_disk_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    place, write, left = world(), os.write, [60]
    broker = place.broker(SessionFolder(tmp_path).paper)

    def full(file: int, content: bytes) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return write(file, content)

    monkeypatch.setattr("os.write", full)
    with pytest.raises(JournalError, match="No space left"):
        session(place, tmp_path, broker=broker)
    monkeypatch.undo()

    again = session(place, tmp_path, broker=place.broker(SessionFolder(tmp_path).paper))
    assert again.state == "stopped"
