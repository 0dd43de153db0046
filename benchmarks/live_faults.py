"""Faults of a live session in real time: seconds to an alert, and seconds until KILL is obeyed.

Each fault happens to a running session with orders that rest at its venue, and the kill file is
created while the fault lasts. Two times are shown for the kill: until submissions are closed, from
which on no order is sent, and until all open orders are cancelled and the watchdog confirms it.

    python benchmarks/live_faults.py [--repeats 5] [--only NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

import sekai
from live_venue import Connection, Faults, Venue
from measure import show
from sekai.data import Bar, MarketData
from sekai.error import JournalError
from sekai.live import (
    BarEvent,
    LiveConfig,
    LiveRunner,
    QueueFeed,
    RiskLimits,
    SessionFolder,
    SessionStatus,
    read_status,
)
from sekai.market import Execution

ASSETS = ("A", "B")
ROW_SECONDS = 0.05
KNOWN = 40
ALERT_SECONDS = 20.0
KILL_SECONDS = 15.0
PAUSE_SECONDS = 2.0
LIMITS = RiskLimits(
    max_orders_per_minute=None, max_daily_loss=None, max_drawdown=None, max_open_orders=None
)


class Trial:
    """Session that trades in real time, with a fault to come."""

    def __init__(self, root: Path) -> None:
        self.folder = SessionFolder(root / "session")
        self.venue, self.faults, self.control_faults = Venue(ASSETS[0]), Faults(), Faults()
        history = market()
        self.feed = QueueFeed(history)
        self.decide: Callable[[], None] = lambda: None
        self.feeds = threading.Event()
        self.feeds.set()
        self.ends = threading.Event()
        self.factor, self.ahead = 1.0, 0.0
        self._row = next(iter(Bar.each(history, len(history) - 1)))
        self._rng = np.random.default_rng(0)
        env = sekai.make(
            "Portfolio-v0", data=history, features=["log_return"], lookback=3, stream=True,
            keep_rows=64, episode_rows=None, execution=Execution(sizing="decision"),
        )  # fmt: skip
        broker = Connection(self.venue, self.faults, self.control_faults)
        config = LiveConfig(limits=LIMITS, sync="never")
        self.runner = LiveRunner(self.policy, env, self.feed, broker, self.folder.path, config)
        self._session = threading.Thread(target=self._run, daemon=True)
        self._feeder = threading.Thread(target=self._feed_rows, daemon=True)

    def policy(self, observation: Any) -> Any:
        """Random weights, after the effect of the fault on policies."""
        self.decide()
        return self._rng.dirichlet(np.ones(len(ASSETS) + 1))

    def start(self) -> None:
        """Trade until orders rest at the venue."""
        self._session.start()
        self._feeder.start()
        end = time.monotonic() + 30.0
        while time.monotonic() < end:
            if len(self.venue.open) and self.status().bars > 10:
                return
            time.sleep(0.02)
        raise TimeoutError("the session does not trade")

    def put(self, count: int = 1) -> None:
        """Put rows of the present into the feed."""
        for _ in range(count):
            now = time.time_ns()
            stamp = now + round(self.ahead * 1e9)
            values = self._row.values * np.exp(self._rng.normal(0.0, 1e-4)) * self.factor
            bar = Bar(
                time=np.datetime64(stamp, "ns"), values=values, listed=self._row.listed,
                quoted=self._row.quoted, tradable=self._row.tradable, market=self._row.market,
            )  # fmt: skip
            self.feed.put(BarEvent(bar=bar, exchange_time=stamp, receive_time=now))

    def status(self) -> SessionStatus:
        """Status as the session has it; the file may be older."""
        while not hasattr(self.runner, "monitor"):
            time.sleep(0.01)
        return self.runner.status()

    def alerts(self) -> list[str]:
        """Alerts of the session, and those that the watchdog has written in its place."""
        alerts = list(self.status().alerts)
        with contextlib.suppress(JournalError):
            alerts += read_status(self.folder.status).alerts
        return alerts

    def stop(self) -> None:
        """End the session and release all calls that hang."""
        self.ends.set()
        self.faults.hangs.clear()
        self.control_faults.hangs.clear()
        self.runner.stop()
        self.feed.finish()
        self._session.join(20.0)

    def _run(self) -> None:
        # A session that fails says so in its status.
        with contextlib.suppress(Exception):
            asyncio.run(self.runner.run())

    def _feed_rows(self) -> None:
        while not self.ends.is_set():
            self.feeds.wait(0.1)
            if self.feeds.is_set():
                self.put()
            time.sleep(ROW_SECONDS)


@dataclass(frozen=True)
class Fault:
    """Fault injected into a trial, and the alert that it must raise."""

    name: str
    begin: Callable[[Trial], None]
    alert: str | None
    """Part of the alert; None if nothing is wrong."""

    kill: Callable[[Trial], float] = field(default=lambda trial: touch(trial))
    """Request the kill, and return the time of the request."""

    note: str = ""


def touch(trial: Trial) -> float:
    """Create the kill file in the session folder, renamed or not."""
    for path in (trial.folder.path, trial.folder.path.with_name("renamed")):
        if path.is_dir():
            now = time.time()
            (path / "KILL").touch()
            return now
    raise FileNotFoundError(trial.folder.path)


def hang(*calls: str) -> Callable[[Trial], None]:
    """Make calls of the session's connection hang."""
    return lambda trial: trial.faults.hangs.update(calls)


def hang_cancel(trial: Trial) -> None:
    """Make cancellations hang: orders of earlier rows are replaced in every row."""
    trial.faults.hangs.add("cancel")


def never_decide(trial: Trial) -> None:
    """Make the policy wait until the trial ends."""

    def wait() -> None:
        trial.ends.wait()

    trial.decide = wait


def hold_interpreter(trial: Trial) -> None:
    """Make the policy hold the interpreter lock once, with a kill half way."""
    _kill_half_way(trial)
    is_held = threading.Event()

    def decide() -> None:
        if not is_held.is_set():
            is_held.set()
            ctypes.PyDLL(None).usleep(round(PAUSE_SECONDS * 1e6))

    trial.decide = decide
    is_held.wait(5.0)


def stop_process(trial: Trial) -> None:
    """Stop this process, with a kill half way, and continue it."""
    script = f"sleep {PAUSE_SECONDS}; kill -CONT {os.getpid()}"
    subprocess.Popen(["sh", "-c", script])
    _kill_half_way(trial)
    os.kill(os.getpid(), signal.SIGSTOP)


def _kill_half_way(trial: Trial) -> None:
    path = trial.folder.kill
    subprocess.Popen(["sh", "-c", f"sleep {PAUSE_SECONDS / 2}; touch {path}"])


def made_half_way(trial: Trial) -> float:
    """Time at which the kill file was made by another process."""
    while not trial.folder.kill.exists():
        time.sleep(0.01)
    return trial.folder.kill.stat().st_mtime


def fill_disk(trial: Trial) -> None:
    """Stop all files from growing, as on a full disk."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))


def rename(trial: Trial) -> None:
    """Rename the session folder."""
    trial.folder.path.rename(trial.folder.path.with_name("renamed"))


def bad_print(trial: Trial) -> None:
    """Triple the prices of one row."""
    trial.factor = 3.0
    time.sleep(ROW_SECONDS)
    trial.factor = 1.0


def stamp_ahead(trial: Trial) -> None:
    """Stamp rows an hour ahead."""
    trial.ahead = 3600.0


def die(trial: Trial) -> None:
    """Make both connections hang; `kill_and_revive` releases them."""
    trial.faults.hangs.add("all")
    trial.control_faults.hangs.add("all")


def kill_and_revive(trial: Trial) -> float:
    """Request a kill while no connection answers; the venue answers again two seconds later."""
    requested = touch(trial)
    time.sleep(PAUSE_SECONDS)
    trial.faults.hangs.clear()
    trial.control_faults.hangs.clear()
    return requested


def kill_by_page(trial: Trial) -> float:
    """Request the kill on the status page, while 300 other connections are idle."""
    command = [sys.executable, "-m", "sekai", "watch", str(trial.folder.path), "--port", "0"]
    environment = {**os.environ, "SEKAI_WATCH_TOKEN": TOKEN}
    page = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert page.stdout is not None
    port = int(page.stdout.readline().partition("?")[0].rpartition(":")[2].strip("/"))
    lines = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(300)]
    try:
        now = time.time()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(KILL_REQUEST.encode())
            answer = line.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return now
    finally:
        for line in lines:
            line.close()
        page.terminate()
        page.wait(20)


TOKEN = "benchmark-token-of-at-least-32-letters"
KILL_REQUEST = (
    "POST /api/kill HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Length: 13\r\n\r\n"
    '{"source": 0}'
)

FAULTS = (
    Fault("none", lambda trial: None, None),
    Fault("submit hangs", hang("submit"), "no answer"),
    Fault("account hangs", hang("account"), "no answer"),
    Fault("cancel hangs", hang_cancel, "no answer"),
    Fault("policy never returns", never_decide, "policy"),
    Fault(
        "policy holds the interpreter lock for 2 s", hold_interpreter, "did not run",
        made_half_way, "KILL after 1 s of 2 s",
    ),
    Fault("feed is dead", lambda trial: trial.feeds.clear(), "no row for"),
    Fault("flood of 30,000 rows", lambda trial: trial.put(30_000), "overflow"),
    Fault("disk is full", fill_disk, "cannot be written", note="the session aborts and cancels"),
    Fault("session folder is renamed", rename, "renamed or replaced"),
    Fault(
        "account is empty", lambda trial: setattr(trial.faults, "account", "empty"), "not explained"
    ),
    Fault(
        "account lags for good", lambda trial: setattr(trial.faults, "account", "lagging"),
        "not explained",
    ),
    Fault(
        "asset of others in the account",
        lambda trial: setattr(trial.faults, "account", "foreign"), "positions of others",
    ),
    Fault("bad print", bad_print, "is not traded"),
    Fault("rows from the future", stamp_ahead, "ahead of the local clock"),
    Fault(
        "venue rejects every order", lambda trial: setattr(trial.venue, "rejects", True), "rejected"
    ),
    Fault(
        "control connection hangs",
        lambda trial: trial.control_faults.hangs.add("all"), "control connection",
    ),
    Fault(
        "control connection is refused",
        lambda trial: trial.control_faults.hangs.add("errors"), "control connection",
    ),
    Fault(
        "both connections hang", die, "no answer", kill_and_revive,
        "both answer again 2 s after KILL",
    ),
    Fault("300 idle connections to the page", lambda trial: None, None, kill_by_page),
    Fault(
        "process is stopped for 2 s", stop_process, "did not run", made_half_way,
        "KILL after 1 s of 2 s",
    ),
)  # fmt: skip


def market() -> MarketData:
    """History that ends now."""
    span = np.timedelta64(round(ROW_SECONDS * 1e9), "ns")
    times = np.datetime64(time.time_ns(), "ns") - span * np.arange(KNOWN)[::-1]
    steps = np.random.default_rng(1).normal(0.0, 1e-4, (KNOWN, len(ASSETS)))
    closes = 100.0 * np.exp(np.cumsum(steps, axis=0))
    return MarketData(times, ASSETS, ("open", "close"), np.repeat(closes[:, :, None], 2, axis=2))


def seconds_of(text: str) -> float:
    """Seconds since 1970 of a time in a status or an alert."""
    return datetime.fromisoformat(text.partition(" ")[0]).timestamp()


def measure(fault: Fault) -> dict[str, float | None]:
    """Times of one trial."""
    with folder() as root:
        trial = Trial(root)
        trial.start()
        try:
            begun = time.time()
            fault.begin(trial)
            # A kill at the same time: a session that aborts has nothing left to kill.
            is_short = fault.begin is fill_disk
            alert = None if is_short else first_alert(trial, fault, begun)
            result = kill(trial, fault)
            if is_short:
                alert = first_alert(trial, fault, begun)
            result["alert"] = alert
        finally:
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
            trial.stop()
    return result


def first_alert(trial: Trial, fault: Fault, begun: float) -> float | None:
    """Seconds until the first alert about a fault; None without one."""
    if fault.alert is None:
        return None
    end = time.time() + ALERT_SECONDS
    while time.time() < end:
        times = [seconds_of(alert) for alert in trial.alerts() if fault.alert in alert]
        times = [moment for moment in times if moment >= begun - 0.01]
        if times:
            return max(0.0, min(times) - begun)
        time.sleep(0.02)
    return None


def kill(trial: Trial, fault: Fault) -> dict[str, float | None]:
    """Seconds until submissions are closed, and until the kill is obeyed."""
    requested = fault.kill(trial)
    closed = obeyed = None
    end = time.time() + KILL_SECONDS
    while time.time() < end and obeyed is None:
        status = trial.status()
        if status.kill_requested:
            closed = seconds_of(status.kill_requested) - requested
        if status.kill_obeyed:
            obeyed = seconds_of(status.kill_obeyed) - requested
        elif status.state == "failed" and not trial.venue.open:
            closed = obeyed = time.time() - requested
        time.sleep(0.005)
    if obeyed is not None:
        assert not trial.venue.open, "orders are open although the kill was obeyed"
        sent = len(trial.venue.accepted)
        time.sleep(0.3)
        assert len(trial.venue.accepted) == sent, "orders were accepted after the kill was obeyed"
    return {"closed": closed, "obeyed": obeyed}


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Temporary folder; a session that was renamed is removed with it."""
    path = Path(tempfile.mkdtemp(prefix="sekai-faults-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def cell(values: list[float | None]) -> str:
    """Median and maximum of times in seconds."""
    known = [max(0.0, value) for value in values if value is not None]
    if not known:
        return "-"
    missing = f" ({len(values) - len(known)} never)" if len(known) < len(values) else ""
    return f"{statistics.median(known):.2f} / {max(known):.2f}{missing}"


def main() -> None:
    """Measure each fault in a process of its own, and show the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", help="part of the name of a fault")
    parser.add_argument("--fault", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fault is not None:
        print(json.dumps(measure(FAULTS[options.fault])))
        return
    rows: list[list[str]] = []
    for number, fault in enumerate(FAULTS):
        if options.only and options.only not in fault.name:
            continue
        results: list[dict[str, float | None]] = []
        for _ in range(options.repeats):
            command = [sys.executable, __file__, "--fault", str(number)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            results.append(json.loads(printed.splitlines()[-1]))
        cells = (cell([one[name] for one in results]) for name in ("alert", "closed", "obeyed"))
        rows.append([fault.name, *cells, fault.note])
        print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
    show(
        "faults of a live session: seconds, median / maximum",
        ["fault", "to the alert", "KILL to no more orders", "KILL to obeyed", "note"],
        rows,
    )


if __name__ == "__main__":
    main()
