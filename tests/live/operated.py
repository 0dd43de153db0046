"""Session in a thread of its own, with rows from the test and commands of `sekai session`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sekai.data import Bar, MarketData
from sekai.error import JournalError
from sekai.live import (
    BarEvent,
    Broker,
    LiveConfig,
    LiveRunner,
    QueueFeed,
    SessionFolder,
    SessionStatus,
    read_journal,
    read_status,
)
from sekai.live.events import bar_time
from tests.cli.commands import Outcome, call
from tests.live.sessions import World

KNOWN = 20


def falling_market(begin: int, share: float, rows: int = 6, size: int = 60) -> World:
    """Market in which all prices lose a share in each of some rows, a minute apart."""
    steps = np.random.default_rng(0).normal(0.0, 1e-4, (size, 3))
    steps[KNOWN + begin : KNOWN + begin + rows] += np.log1p(-share)
    closes = 100.0 * np.exp(np.cumsum(steps, axis=0))
    times = np.datetime64("2024-03-01T10:00", "ns") + np.arange(size) * np.timedelta64(1, "m")
    values = np.repeat(closes[:, :, None], 2, axis=2)
    return World(MarketData(times, ("A", "B", "C"), ("open", "close"), values), KNOWN, {})


def hold_most(observation: Any) -> Any:
    """Policy that holds three equal positions."""
    return np.array([0.3, 0.3, 0.3, 0.1])


class OperatedSession:
    """Running session; a context that stops it."""

    def __init__(self, place: World, folder: Path, broker: Broker, config: LiveConfig) -> None:
        self.folder = SessionFolder(folder)
        self._bars = list(Bar.each(place.data, place.known))
        self._feed = QueueFeed(place.data.rows(0, place.known))
        # Rows are of the past.
        self._feed.is_replay = True
        self._runner = LiveRunner(hold_most, place.env(), self._feed, broker, folder, config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> OperatedSession:
        # That of the session before.
        self.folder.status.unlink(missing_ok=True)
        self._thread.start()
        self.until(lambda status: status.state != "starting")
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.stop()
        self._feed.finish()
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        if error[0] is None and self.error is not None:
            raise self.error

    def trade(self, rows: int) -> SessionStatus:
        """Trade the next rows, and return the status after them."""
        for _ in range(rows):
            row = self._runner.episode.row
            bar = self._bars[row]
            moment = bar_time(bar)
            self._feed.put(BarEvent(bar=bar, exchange_time=moment, receive_time=moment))
            wait_until(lambda row=row: self._runner.status().bars > row)  # type: ignore[misc]
        return self._runner.status()

    def is_closing(self) -> bool:
        """Return True while all closing orders of the watchdog are at the broker."""
        return self._runner._link.is_closing

    def status(self) -> SessionStatus:
        """Status of the running session."""
        return self._runner.status()

    def until(self, is_so: Callable[[SessionStatus], bool]) -> SessionStatus:
        """Status in its file, once it is so."""

        def current() -> SessionStatus | None:
            try:
                return read_status(self.folder.status)
            except JournalError:
                return None

        wait_until(lambda: (status := current()) is not None and is_so(status))
        status = current()
        assert status is not None
        return status

    def command(self, name: str, *options: str) -> Outcome:
        """Run a command of `sekai session`."""
        return call("session", name, self.folder.path, *options)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Fields of the journal records of a kind."""
        records = read_journal(self.folder.journal)
        return [dict(record.fields) for record in records if record.kind == kind]

    def _run(self) -> None:
        try:
            asyncio.run(self._runner.run())
        except BaseException as error:
            self.error = error


def wait_until(is_so: Callable[[], bool], seconds: float = 40.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"it never came about in {seconds:g} s"
        time.sleep(0.01)
