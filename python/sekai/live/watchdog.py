"""Watchdog: kill switch, cancel-all and flatten on a thread and a broker connection of their own.

The watchdog shares no lock with the processing of rows: a broker call, a policy or a feed that
hangs delays neither the kill switch nor the status. It closes the session's submissions at once,
cancels open orders on the control connection, closes positions if asked to, and acknowledges:
status, page and command show "requested" until it has "obeyed".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from sekai.error import BrokerError, JournalError
from sekai.live.account import ROUNDING_UNITS, BrokerAccount
from sekai.live.broker import Broker, call_with_timeout
from sekai.live.clock import Clock
from sekai.live.config import LiveConfig, SessionFolder
from sekai.live.instruments import Instrument
from sekai.live.journal import Journal, read_journal
from sekai.live.kill_switch import KillSwitch, kill_text
from sekai.live.orders import BrokerOrder, order_fields, order_from_fields
from sekai.live.risk import closing_orders
from sekai.live.session_log import redacted
from sekai.live.state_machine import SessionStateMachine

if TYPE_CHECKING:
    from sekai.live.status import SessionStatus

__all__ = ["Request", "SessionLink", "Watchdog", "closing_orders_of"]

POLL_SECONDS = 0.05
"""Interval of the checks of the kill file and of the session's heartbeat."""

VERIFY_SECONDS = 0.5
"""Interval at which a kill that was obeyed, or an account that was closed, is verified: an order or
a fill may arrive late."""

PROBE_SECONDS = 5.0
"""Interval at which the control connection is tried: a broken one is known before a kill."""

HEDGE_SECONDS = 0.2
"""Time after which a call that one connection has not answered is made on the other as well."""

PAUSE_SECONDS = 1.0
"""Time for which the process did not run that raises an alert."""

STATUS_SECONDS = 1.0
ROUNDING = 1e-9
UNPRICED = "positions are closed once the session has recovered their prices"
CONCURRENT_CALLS = 16
ORDERS_PER_WAVE = 50
"""Closing orders submitted at a time: positions may need thousands of orders within the limits."""


Request = Callable[[Broker], Awaitable[Any]]
"""Call to a broker, on whichever connection."""


@dataclass(slots=True)
class SessionLink:
    """Values that a session and its watchdog show each other; each has one writer.

    The session writes the first group, the watchdog the second. Values are replaced, never
    changed in place, so that no lock is needed.
    """

    beat: int = 0
    """Time of the session's last heartbeat by the monotonic clock."""

    activity: str = "starting"
    """Call that the session waits for, for alerts about a session that hangs."""

    status: SessionStatus | None = None
    units: Mapping[str, float] | None = None
    """Positions expected from fills; None while they are recovered."""

    prices: Mapping[str, float] = field(default_factory=dict)
    """Last valid prices."""

    open_ids: tuple[str, ...] = ()
    submitting: str = ""
    """Id of the order that is being submitted."""

    wants_flat: str = ""
    """Reason to close all positions, such as the end of the session; empty for none."""

    submissions_closed: bool = False
    """True if the session must not submit anything."""

    kill_requested: str = ""
    kill_obeyed: str = ""
    kill_detail: str = ""
    is_closing: bool = False
    """True while closing orders are open."""

    is_flat: bool = False
    """True if all positions are closed."""

    closing: deque[BrokerOrder] = field(default_factory=deque)
    """Orders submitted by the watchdog, for the session's order tracker."""

    alerts: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=1000))
    """Times and texts of the watchdog's alerts, which the session adds to its own."""

    changed: Callable[[], None] = lambda: None
    """Wakes the session after the watchdog has acted; set by the session."""

    call_session: Callable[[Request], Awaitable[Any]] | None = None
    """Makes a call on the session's own connection, in its event loop; set by the session."""


class Watchdog:
    """Supervises a session, and owns its kill switch, cancel-all and flatten.

    Args:
        folder: session folder.
        switch: kill switch of the session.
        broker: control connection.
        config: settings of the session.
        link: values shared with the session.
        state: state machine of the session.
        clock: clock.
        publish: writes a status; called when the session does not.
    """

    def __init__(
        self,
        folder: SessionFolder,
        switch: KillSwitch,
        broker: Broker,
        config: LiveConfig,
        link: SessionLink,
        state: SessionStateMachine,
        clock: Clock,
        publish: Callable[[SessionStatus], None],
    ) -> None:
        self._folder, self._switch, self._broker, self._config = folder, switch, broker, config
        self._link, self._state, self._clock, self._publish = link, state, clock, publish
        # Of every namespace that the folder ever had, see `AccountFolder`.
        self._prefix = f"{folder.path.name}."
        self._handle = _FolderHandle(folder)
        self._journal: Journal | None = None
        self._is_closed = False
        self._is_connected = False
        self._prefers_session = False
        self._acting: asyncio.Task[None] | None = None
        self._kills = 0
        self._closing: set[str] = set()
        self._wave: list[BrokerOrder] = []
        self._waves = 0
        self._verified = self._published = -math.inf
        self._shown_kill = ("", "")
        self._looked = math.inf
        self._seen: tuple[float, dict[str, float]] | None = None
        self._baseline: dict[str, float] | None = None
        self._closed: dict[str, float] = {}
        self._reported: set[str] = set()

    def look(self) -> None:
        """Check the folder and the kill file at once: called before the session does anything."""
        self._check_folder()
        self._check_kill()

    async def run(self) -> None:
        """Supervise until `close`; an error is an alert and never ends the watchdog."""
        probing = asyncio.ensure_future(self._repeat(self._probe, PROBE_SECONDS))
        try:
            await self._repeat(self._supervise, POLL_SECONDS)
            if self._acting is not None:
                await self._acting
        finally:
            for task in filter(None, (self._acting, probing)):
                task.cancel()
            with contextlib.suppress(Exception):
                await call_with_timeout(self._broker.close, self._config.call_timeout)
            self._handle.close()
            if self._journal is not None:
                with contextlib.suppress(JournalError):
                    self._journal.close()

    def close(self) -> None:
        """End the supervision after the current turn."""
        self._is_closed = True

    async def _repeat(self, step: Callable[[], Awaitable[None]], seconds: float) -> None:
        while not self._is_closed:
            await self._guarded(step)
            await self._clock.sleep(seconds)

    async def _guarded(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:
            self._alert_once(f"watchdog: {type(error).__name__}: {error}")

    async def _supervise(self) -> None:
        now = self._now()
        paused, self._looked = now - self._looked - POLL_SECONDS, now
        if paused > PAUSE_SECONDS:
            self._alert(
                f"the process did not run for {paused:.1f} s: it was stopped, or a call held "
                f"Python's interpreter lock; a kill had to wait as long"
            )
        self.look()
        self._check_heartbeat()
        if self._is_due() and (self._acting is None or self._acting.done()):
            # In a task of its own: no broker call delays the closing of submissions.
            self._acting = asyncio.ensure_future(self._guarded(self._act))
        self._publish_if_silent()

    def _is_due(self) -> bool:
        """Return True if a kill is to be obeyed or positions closed, or either to be verified."""
        link = self._link
        if not link.kill_requested and (not link.wants_flat or link.submissions_closed):
            return False
        is_done = bool(link.kill_obeyed) if link.kill_requested else link.is_flat
        return self._now() - self._verified >= (VERIFY_SECONDS if is_done else 0.0)

    async def _act(self) -> None:
        """Obey a kill, or close positions; both are verified from time to time afterwards."""
        if self._link.kill_requested:
            await self._obey()
        else:
            # Orders that fill later would open positions again.
            await self._cancel_all()
            await self._flatten()
        self._verified = self._now()

    async def _probe(self) -> None:
        """Try the control connection, and alert when it breaks down or answers again."""
        try:
            await self._on_control(lambda broker: broker.open_orders())
        except Exception as error:
            if not self._prefers_session:
                self._alert(
                    f"the control connection does not answer, a kill uses the session's: {error}"
                )
            self._prefers_session = True
        else:
            if self._prefers_session:
                self._alert("the control connection answers again")
            self._prefers_session = False

    def _check_kill(self) -> None:
        """Take notice of a pulled or released kill switch."""
        link = self._link
        is_pulled = self._switch.look()
        if not is_pulled and self._state.holds("folder_replaced"):
            # The file is not where the switch looks.
            is_pulled = self._handle.has_kill_file()
        if is_pulled and not link.kill_requested:
            reason = kill_text(self._switch.reason())
            # Before anything that may fail or wait.
            link.submissions_closed = True
            self._state.raise_cause("kill", "watchdog", f"kill switch: {reason}")
            link.kill_obeyed, link.kill_detail = "", "cancelling open orders"
            link.kill_requested = self._timestamp()
            self._kills += 1
            self._verified, self._baseline = -math.inf, None
            link.is_flat = False
            self._note("kill", reason=reason)
            link.changed()
        elif link.kill_requested and not is_pulled:
            self._note("released")
            self._state.clear_cause("kill", "watchdog")
            link.kill_requested = link.kill_obeyed = link.kill_detail = ""
            link.submissions_closed = self._state.holds("folder_replaced")
            link.changed()

    def _check_folder(self) -> None:
        problem = self._handle.problem()
        if problem and not self._state.holds("folder_replaced"):
            self._link.submissions_closed = True
            self._state.raise_cause("folder_replaced", "watchdog", problem)
            self._alert(f"{problem}; trading is halted, restart the session in its folder")

    def _check_heartbeat(self) -> None:
        """Halt a session whose event loop is blocked, until it beats again."""
        if not self._link.beat:
            return
        silent = (self._clock.monotonic_ns() - self._link.beat) / 1e9
        if silent > self._config.stall_seconds:
            reason = f"the session has been blocked for {silent:.0f} s in: {self._link.activity}"
            if self._state.raise_cause("stalled", "watchdog", reason):
                self._alert(reason)
        elif self._state.clear_cause("stalled", "watchdog"):
            self._alert("the session responds again")

    async def _obey(self) -> None:
        """Cancel all open orders of the session, close positions if asked to, and acknowledge."""
        link, kills = self._link, self._kills
        try:
            remaining = await self._cancel_all()
            positions = await self._flatten() if self._config.on_kill == "flatten" else ""
        except BrokerError as error:
            link.kill_detail = (
                f"no orders are sent; the broker does not answer: {redacted(str(error))}"
            )
            self._alert_once(f"kill: {link.kill_detail}")
            return
        if not link.kill_requested or kills != self._kills:
            # Released meanwhile: orders may have been sent since.
            return
        details = [f"{len(remaining)} orders are still open"] if remaining else []
        if link.submitting:
            details.append(f"order {link.submitting} was being submitted and is watched for")
        if positions:
            details.append(positions)
        link.kill_detail = "; ".join(details)
        if not remaining and not link.kill_obeyed and positions != UNPRICED:
            link.kill_obeyed = self._timestamp()
            self._note("obeyed", detail=link.kill_detail)
            link.changed()

    async def _cancel_all(self) -> list[str]:
        """Cancel open orders other than closing ones; return the ids that remain open."""
        open_ids = await self._open_ids()
        if not open_ids:
            return []
        self._note("cancel_all", ids=open_ids[:1000])
        await self._each(open_ids, lambda name: lambda broker: broker.cancel(name))
        return await self._open_ids()

    async def _open_ids(self) -> list[str]:
        orders = await self._call(lambda broker: broker.open_orders())
        return [
            order.id
            for order in orders
            if order.id.startswith(self._prefix) and order.id not in self._closing
        ]

    async def _flatten(self) -> str:
        """Submit orders that close all positions; return what remains, empty when flat."""
        ids = [order.id for order in self._wave]
        states = await self._call(lambda broker: broker.known(ids)) if ids else {}
        if any(state.is_open for state in states.values()):
            return f"closing {', '.join(sorted({order.asset for order in self._wave}))}"
        self._link.is_closing = False
        if self._wave:
            self._seen = None
        for order in self._wave:
            filled = states[order.id].filled if order.id in states else 0.0
            self._closed[order.asset] = self._closed.get(order.asset, 0.0) + filled
        self._wave = []
        account: BrokerAccount = await self._call(lambda broker: broker.account())
        instruments = await self._call(lambda broker: broker.instruments())
        if not self._link.prices and any(account.units.values()):
            return UNPRICED
        units = self._positions(account, instruments)
        if not units:
            self._link.is_flat = True
            self._link.changed()
            return ""
        await self._submit_wave(units, instruments)
        return f"closing {', '.join(sorted(units))}"

    def _positions(
        self, account: BrokerAccount, instruments: Mapping[str, Instrument]
    ) -> dict[str, float]:
        """Positions to close: the least that the broker, the session and own fills say is held.

        An account may lag behind fills: closing more than is held would open a position on the
        other side. Once the account has not changed for `account_lag_seconds`, it is right.
        """
        now = self._now()
        if self._seen is None or dict(self._seen[1]) != dict(account.units):
            self._seen = now, dict(account.units)
        is_settled = now - self._seen[0] >= self._config.account_lag_seconds
        if self._baseline is None or is_settled:
            self._baseline, self._closed = dict(account.units), {}
        held: dict[str, float] = {}
        for asset, units in account.units.items():
            if asset not in self._link.prices:
                # Of others, or without any price: the session alerts about both.
                continue
            claims = [units, self._baseline.get(asset, 0.0) + self._closed.get(asset, 0.0)]
            if self._link.units is not None and not is_settled:
                claims.append(self._link.units.get(asset, 0.0))
            is_agreed = all(claim * units > 0.0 for claim in claims)
            size = min(map(abs, claims)) if is_agreed else 0.0
            if abs(units) - size <= ROUNDING * abs(units):
                # Sums of fills are off by rounding: none of the position may be left.
                size = abs(units)
            instrument = instruments.get(asset)
            if size > ROUNDING_UNITS and not (
                instrument is not None
                and instrument.is_dust(size, self._link.prices.get(asset, math.nan))
            ):
                held[asset] = math.copysign(size, units)
        return held

    async def _submit_wave(
        self, units: Mapping[str, float], instruments: Mapping[str, Instrument]
    ) -> None:
        self._waves += 1
        name = f"{self._prefix}close-{self._clock.wall_ns() // 1_000_000}.{self._waves}"
        orders = closing_orders(
            name, units, self._link.prices, self._config.limits, instruments, ORDERS_PER_WAVE
        )
        if not orders:
            self._alert_once(f"positions {dict(units)} cannot be closed within limits and lots")
            return
        for order in orders:
            self._closing.add(order.id)
            self._note("order", **order_fields(order))
            self._link.closing.append(order)
        if self._journal is not None:
            self._journal.make_durable()
        self._wave = orders
        # The account is right again when it has not changed for a while after these.
        self._seen = None
        self._link.is_flat = False
        by_id = {order.id: order for order in orders}
        await self._each(by_id, lambda key: lambda broker: broker.submit(by_id[key]))
        self._link.is_closing = True
        self._link.changed()

    async def _each(self, names: Iterable[str], request: Callable[[str], Request]) -> None:
        """Make a call for each name, several at a time; raise the first error after all."""
        names = list(names)
        errors: list[BaseException] = []
        for begin in range(0, len(names), CONCURRENT_CALLS):
            batch = names[begin : begin + CONCURRENT_CALLS]
            results = await asyncio.gather(
                *(self._call(request(name)) for name in batch), return_exceptions=True
            )
            errors += [result for result in results if isinstance(result, BaseException)]
        if errors:
            raise errors[0]

    async def _call(self, request: Request) -> Any:
        """Answer of the first connection that gives one.

        A call that the control connection does not answer soon is made on the session's as well,
        or the other way round while the control connection is down: calls are idempotent.
        """
        connections = [self._on_control, self._on_session]
        if self._prefers_session:
            connections.reverse()
        waiting = {asyncio.ensure_future(connections[0](request))}
        errors: list[BaseException] = []
        try:
            done, waiting = await asyncio.wait(waiting, timeout=HEDGE_SECONDS)
            is_hedged = False
            while True:
                for task in done:
                    error = _error_of(task)
                    if error is None:
                        return task.result()
                    errors.append(error)
                if not is_hedged:
                    is_hedged = True
                    waiting = {*waiting, asyncio.ensure_future(connections[1](request))}
                elif not waiting:
                    raise errors[0]
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _on_control(self, request: Request) -> Any:
        """Answer of the control connection within the timeout; connects first if needed."""
        seconds = self._config.control_timeout
        if not self._is_connected:
            await call_with_timeout(self._broker.connect, seconds)
            self._is_connected = True
        try:
            return await call_with_timeout(lambda: request(self._broker), seconds)
        except BrokerError:
            self._is_connected = False
            raise

    async def _on_session(self, request: Request) -> Any:
        """Answer of the session's connection within the timeout."""
        call = self._link.call_session
        if call is None:
            raise BrokerError("the session has no connection yet")
        return await call_with_timeout(lambda: call(request), self._config.control_timeout)

    def _note(self, kind: Any, **fields: Any) -> None:
        """Write to the watchdog's journal; a full disk must not keep a kill from being obeyed."""
        try:
            if self._journal is None:
                self._journal = Journal(self._folder.watchdog, "orders")
            self._journal.append(kind, **fields)
        except (JournalError, OSError) as error:
            self._journal = None
            self._alert_once(f"the watchdog's journal cannot be written: {error}")

    def _publish_if_silent(self) -> None:
        """Write the status while the session does not."""
        link, now = self._link, self._now()
        status, kill = link.status, (link.kill_requested, link.kill_obeyed)
        silent = (self._clock.monotonic_ns() - link.beat) / 1e9
        is_known = kill == self._shown_kill and now - self._published < STATUS_SECONDS
        if status is None or silent < STATUS_SECONDS or is_known:
            return
        self._published, self._shown_kill = now, kill
        alerts = tuple(f"{time} {text}" for time, text in reversed(tuple(link.alerts)))
        self._publish(
            replace(
                status,
                updated=self._timestamp(),
                state=self._state.state,
                reason=redacted(self._state.reason),
                kill_requested=link.kill_requested,
                kill_obeyed=link.kill_obeyed,
                kill_detail=link.kill_detail,
                alerts=(*alerts, *status.alerts)[:50],
            )
        )

    def _alert_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._alert(text)

    def _alert(self, text: str) -> None:
        self._link.alerts.append((self._timestamp(), redacted(text)))

    def _now(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _timestamp(self) -> str:
        now = datetime.fromtimestamp(self._clock.wall_ns() / 1e9, timezone.utc)
        return now.isoformat(timespec="milliseconds")


def closing_orders_of(folder: SessionFolder) -> list[BrokerOrder]:
    """Closing orders of all watchdogs that the session had, oldest first."""
    try:
        records = list(read_journal(folder.watchdog))
    except JournalError:
        # Its own watchdog says so; orders that nobody knows appear as differences of the account.
        return []
    return [order_from_fields(record.fields) for record in records if record.kind == "order"]


class _FolderHandle:
    """Open session folder: notices that it was renamed, deleted or replaced."""

    def __init__(self, folder: SessionFolder) -> None:
        self._path, self._kill = os.fspath(folder.path), folder.kill.name
        self._handle: int | None = None
        if os.name != "nt":
            self._handle = os.open(folder.path, os.O_RDONLY)
            self._stat = os.fstat(self._handle)

    def problem(self) -> str:
        """Problem with the folder; empty if its path still leads to it."""
        if self._handle is None:
            return ""
        try:
            is_same = os.path.samestat(self._stat, os.stat(self._path))
        except OSError:
            is_same = False
        return "" if is_same else f"the session folder {self._path} was renamed or replaced"

    def has_kill_file(self) -> bool:
        """Return True if the folder holds a kill file, wherever it is now."""
        if self._handle is None:
            return False
        try:
            os.stat(self._kill, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError:
            # Unknown counts as pulled.
            return True
        return True

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _error_of(task: asyncio.Future[Any]) -> BaseException | None:
    """Error that a call ended with; None if it has an answer."""
    return BrokerError("the call was cancelled") if task.cancelled() else task.exception()
