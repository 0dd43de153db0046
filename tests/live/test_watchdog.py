"""The watchdog obeys KILL within a second, whatever hangs, on real threads."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.error import BrokerError
from sekai.live import (
    BrokerOrder,
    Feed,
    FeedEvent,
    LiveConfig,
    LiveRunner,
    PaperBroker,
    SessionFolder,
    SessionStatus,
    read_status,
)
from sekai.market import Execution
from tests.live.sessions import FREE, World, follow, world

CONFIG = LiveConfig(limits=FREE, sync="never", retry_seconds=0.01, call_timeout=30.0)
HANGS = 60.0


class Paced(Feed):
    """Feed with a row every few milliseconds, which stops after some."""

    def __init__(self, place: World, rows: int) -> None:
        super().__init__()
        self._feed, self._left = place.feed(), rows

    async def __anext__(self) -> FeedEvent:
        if not self._left:
            await asyncio.Event().wait()
        self._left -= 1
        await asyncio.sleep(0.005)
        return await self._feed.__anext__()


def obeyed(folder: SessionFolder, seconds: float = 20.0) -> SessionStatus:
    """Status in which the kill is obeyed."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        try:
            status = read_status(folder.status)
        except Exception:
            time.sleep(0.01)
            continue
        if status.kill_obeyed:
            return status
        time.sleep(0.01)
    raise AssertionError("the kill was not obeyed")


def seconds_between(earlier: str, later: str) -> float:
    return float((np.datetime64(later[:-6]) - np.datetime64(earlier[:-6])) / np.timedelta64(1, "s"))


class Metronome:
    """Thread that wakes up as the watchdog does: how late the machine lets threads run."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._latest = 0.0

    def __enter__(self) -> Metronome:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self, status: SessionStatus) -> None:
        """Assert that a kill was obeyed within a second, and what the machine added."""
        seconds = seconds_between(status.kill_requested, status.kill_obeyed)
        # The watchdog wakes up some ten times to obey.
        assert seconds < 1.0 + 10.0 * self._latest, (seconds, self._latest)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(0.01):
            self._latest = max(self._latest, time.monotonic() - due - 0.01)
            due = time.monotonic()


def killed_while(
    folder: Path,
    place: World,
    broker: PaperBroker,
    policy: Any,
    stuck: threading.Event,
    released: threading.Event,
) -> SessionStatus:
    """Kill a session while something hangs in it, which it obeys within a second.

    What hangs goes on afterwards.
    """
    runner = LiveRunner(policy, place.env(), Paced(place, 50), broker, folder, CONFIG)
    thread = threading.Thread(target=lambda: asyncio.run(runner.run()), daemon=True)
    thread.start()
    try:
        assert stuck.wait(30.0)
        with Metronome() as metronome:
            SessionFolder(folder).kill.touch()
            status = obeyed(SessionFolder(folder))
        metronome.check(status)
        return status
    finally:
        runner.stop()
        released.set()
        thread.join(30.0)
        assert not thread.is_alive()


def test_a_broker_call_that_never_returns_delays_no_kill(tmp_path: Path) -> None:
    place = world()
    broker, stuck, released = place.broker(), threading.Event(), threading.Event()
    submit, count = broker.submit, 0

    async def hangs(order: BrokerOrder) -> None:
        nonlocal count
        count += 1
        if count > 10:
            stuck.set()
        while stuck.is_set() and not released.is_set():
            await asyncio.sleep(0.01)
        await submit(order)

    broker.submit = hangs  # type: ignore[method-assign]

    status = killed_while(tmp_path / "s", place, broker, follow, stuck, released)

    assert status.state == "killed"
    assert broker._orders._open == {}


def test_a_broker_call_that_blocks_the_event_loop_delays_no_kill(tmp_path: Path) -> None:
    place = world()
    broker, stuck, released = place.broker(), threading.Event(), threading.Event()
    account, count = broker.account, 0

    async def blocks() -> Any:
        nonlocal count
        count += 1
        if count == 8:
            stuck.set()
            released.wait(HANGS)
        return await account()

    broker.account = blocks  # type: ignore[method-assign]

    status = killed_while(tmp_path / "s", place, broker, follow, stuck, released)

    assert status.state == "killed"


def test_a_policy_that_never_decides_delays_no_kill_and_rows_go_on(tmp_path: Path) -> None:
    place = world()
    stuck, released = threading.Event(), threading.Event()
    count = 0

    def thinks(observation: Any) -> Any:
        nonlocal count
        count += 1
        if count == 5:
            stuck.set()
            released.wait(HANGS)
        return follow(observation)

    status = killed_while(tmp_path / "s", place, place.broker(), thinks, stuck, released)

    assert status.state == "killed"


@pytest.mark.parametrize("breakdown", ["hangs", "raises"])
def test_a_kill_uses_the_session_s_connection_when_the_control_connection_is_down(
    tmp_path: Path, breakdown: str
) -> None:
    place = world(execution=Execution(sizing="decision", participation=1e-7, unfilled="carry"))
    broker, stuck, released = NoControl(place, breakdown), threading.Event(), threading.Event()
    # Longer than the first trial of the control connection may take.
    threading.Timer(1.5, stuck.set).start()

    status = killed_while(tmp_path / "s", place, broker.broker, follow, stuck, released)

    assert status.state == "killed"
    assert broker.broker.resting_orders() == []
    assert any("control connection does not answer" in alert for alert in status.alerts)


class NoControl:
    """Paper broker whose control connection is down."""

    def __init__(self, place: World, breakdown: str) -> None:
        self.broker = place.broker()
        control = self.broker.control()

        async def fails(*values: Any) -> Any:
            if breakdown == "raises":
                raise BrokerError("connection refused")
            await asyncio.Event().wait()

        for name in ("connect", "open_orders", "cancel", "submit", "known", "account"):
            setattr(control, name, fails)
        self.broker.control = lambda: control  # type: ignore[method-assign]


def test_a_process_that_did_not_run_says_so(tmp_path: Path) -> None:
    place = world()
    stuck, released, count = threading.Event(), threading.Event(), 0

    def holds(observation: Any) -> Any:
        nonlocal count
        count += 1
        if count == 5:
            # Without giving up the interpreter lock, as a long call of an extension module.
            ctypes.PyDLL(None).usleep(1_500_000)
            stuck.set()
        return follow(observation)

    killed_while(tmp_path / "s", place, place.broker(), holds, stuck, released)

    status = read_status(SessionFolder(tmp_path / "s").status)
    assert any("the process did not run for " in alert for alert in status.alerts)


def test_a_late_decision_is_discarded_and_positions_are_held(tmp_path: Path) -> None:
    place = world()
    count = 0

    def thinks(observation: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            time.sleep(0.4)
        return follow(observation)

    async def run() -> SessionStatus:
        config = LiveConfig(limits=FREE, sync="never", policy_timeout=0.1)
        runner = LiveRunner(
            thinks, place.env(), place.feed(stop=60), place.broker(), tmp_path, config
        )
        return await runner.run()

    status = asyncio.run(run())

    assert status.bars == 20
    assert status.decisions < 20
    assert any("positions are held: the policy did not decide in 0.1 s" in a for a in status.alerts)


def test_a_renamed_session_folder_halts_trading_and_obeys_its_kill_file(tmp_path: Path) -> None:
    place, folder = world(), tmp_path / "session"

    async def run() -> list[SessionStatus]:
        runner = LiveRunner(follow, place.env(), Paced(place, 50), place.broker(), folder, CONFIG)
        task = asyncio.ensure_future(runner.run())
        while not hasattr(runner, "session") or runner.status().bars < 5:
            await asyncio.sleep(0.01)
        folder.rename(tmp_path / "renamed")
        statuses = [await _until(runner, lambda status: status.state == "halted")]
        (tmp_path / "renamed" / "KILL").touch()
        statuses.append(await _until(runner, lambda status: bool(status.kill_obeyed)))
        runner.stop()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 20.0)
        return statuses

    halted, killed = asyncio.run(run())

    assert any("renamed or replaced" in alert for alert in (*halted.alerts, *killed.alerts))
    assert killed.state == "killed"


async def _until(runner: LiveRunner, is_so: Callable[[SessionStatus], bool]) -> SessionStatus:
    for _ in range(2000):
        if is_so(runner.status()):
            return runner.status()
        await asyncio.sleep(0.01)
    raise AssertionError(f"it never came about: {runner.status()}")


@pytest.mark.parametrize("on_kill", ["hold", "flatten"])
def test_a_kill_before_the_start_is_obeyed_before_the_journal_is_read(
    tmp_path: Path, on_kill: Any
) -> None:
    place, folder = world(), tmp_path / "session"
    folder.mkdir()
    SessionFolder(folder).kill.touch()

    async def run() -> SessionStatus:
        config = LiveConfig(limits=FREE, sync="never", on_kill=on_kill)
        runner = LiveRunner(
            follow, place.env(), place.feed(stop=60), place.broker(), folder, config
        )
        return await runner.run()

    with Metronome() as metronome:
        status = asyncio.run(run())

    assert (status.state, status.orders_sent) == ("killed", 0)
    assert status.reason == "kill switch: kill file without a reason"
    metronome.check(status)
