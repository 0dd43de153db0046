"""Paper broker: fills orders in the rows of a feed, with a ledger to recover from."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from sekai.core.env import Env
from sekai.data import Bar
from sekai.envs.portfolio import Portfolio
from sekai.error import BrokerError, JournalError, StateError
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.config import SessionFolder
from sekai.live.events import bar_from_fields, bar_time
from sekai.live.instruments import Instrument
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderState,
    order_from_fields,
    report_from_fields,
)
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.faults import PaperFaults
from sekai.live.paper.ledger import PaperLedger, all_fields, holdings, report_rows
from sekai.live.paper.orders import PaperOrders
from sekai.storage.files import private_folder

__all__ = ["PaperBroker"]

REPORT_LISTS = ("undelivered", "duplicates", "last_delivered")
"""Lists of reports in a snapshot."""


class PaperBroker(Broker):
    """Simulated broker that fills orders in the next row, by the rules of a `PaperAccount`.

    Orders in one asset are filled together, and fills are allocated to them first come first
    served. With `Execution(unfilled="carry")` the rest of an order stays open until it is filled,
    cancelled, or replaced by an order in the same asset; otherwise it expires.

    A row that is not after the last one is ignored, so that rows may be repeated.

    Args:
        account: a new account; the ledger is replayed in it.
        ledger: file in which everything is written before it is answered; without one, the state
            is lost with the process.
        faults: faults to inject.
        delay: delay of orders in rows, which can be cancelled meanwhile; that of the account must
            be 0.
        clock: nanoseconds since 1970 in UTC.
        instruments: lots, ticks and minimum sizes; an order that does not keep them is rejected.

    Raises:
        JournalError: the ledger is damaged, in use, or that of another account.
    """

    def __init__(
        self,
        account: PaperAccount,
        ledger: Path | None = None,
        faults: PaperFaults | None = None,
        *,
        delay: int = 0,
        clock: Callable[[], int] = time.time_ns,
        instruments: Iterable[Instrument] = (),
    ) -> None:
        if account.execution.delay:
            raise ValueError(
                f"the account must have a delay of 0, got {account.execution.delay}; use "
                f"PaperBroker.like(env), or PaperBroker(..., delay=...)"
            )
        self._faults = faults or PaperFaults()
        self._clock = clock
        self._instruments = {instrument.asset: instrument for instrument in instruments}
        # The watchdog uses the control connection from another thread.
        self._mutex = threading.Lock()
        self._account = account
        self._orders = PaperOrders(account, self._faults, delay, self._instruments)
        self.last_time: int | None = None
        """Timestamp of the last row in nanoseconds since 1970 in UTC."""

        self._undelivered: deque[ExecutionReport] = deque()
        # Reports to deliver once more: duplicates by a fault, and after a restart the last ones.
        self._repeated: list[ExecutionReport] = []
        self._duplicates: list[ExecutionReport] = []
        self._last_delivered: list[ExecutionReport] = []
        self._delivered = self._deliveries = self._calls = 0
        self._is_connected = True
        self._failure: BaseException | None = None
        self._ledger = None if ledger is None else PaperLedger(ledger, self._opening(delay))
        if self._ledger is not None:
            self._rebuild(self._ledger)

    @classmethod
    def like(
        cls,
        env: Env[Any, Any],
        ledger: Path | str | None = None,
        faults: PaperFaults | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
        instruments: Iterable[Instrument] = (),
    ) -> PaperBroker:
        """Paper broker with the rules, rows and delay of a `Portfolio`, wrapped or not.

        Args:
            env: the env.
            ledger: file of the ledger, or the session folder, where it is `paper.jsonl`: a folder,
                or a path without a suffix. Missing folders are created.
            faults: faults to inject.
            clock: nanoseconds since 1970 in UTC.
            instruments: lots, ticks and minimum sizes.
        """
        portfolio = env.unwrapped
        if not isinstance(portfolio, Portfolio):
            raise TypeError(f"expected a Portfolio env, got {portfolio!r}")
        account, delay = PaperAccount.like(env, delay=0), portfolio.config.execution.delay
        return cls(
            account,
            _ledger_file(ledger),
            faults,
            delay=delay,
            clock=clock,
            instruments=instruments,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._account.account!r}>"

    def control(self) -> Broker:
        """Second connection to the same account, without the injected faults."""
        return _PaperControl(self)

    async def connect(self) -> None:
        """Connect, or reconnect after an injected disconnect."""
        self._is_connected = True

    async def submit(self, order: BrokerOrder) -> None:
        """Accept an order; it fills in the next row at the earliest."""
        breaks = await self._begin_call()
        number, is_new = self.accept(order)
        if is_new and self._faults.happens("lose_acknowledgement", number):
            raise BrokerError(f"acknowledgement of order {order.id} lost; query the order")
        self._end_call(breaks)

    def accept(self, order: BrokerOrder) -> tuple[int, bool]:
        """Accept an order; return its number, and False if its id was accepted before."""
        with self._mutex:
            self._require_intact()
            number, is_new, now = len(self._orders), order.id not in self._orders, self._clock()
            reports = self._orders.submit(order, now)
            if is_new and self._ledger is not None:
                self._write(self._ledger.record_order, order, now, reports)
            self._undelivered.extend(reports)
        return number, is_new

    async def cancel(self, order_id: str) -> None:
        """Cancel an order."""
        breaks = await self._begin_call()
        self.withdraw(order_id)
        self._end_call(breaks)

    def withdraw(self, order_id: str) -> None:
        """Cancel an order that is open; any other is ignored."""
        with self._mutex:
            self._require_intact()
            now = self._clock()
            if self._orders.is_open(order_id):
                reports = self._orders.cancel(order_id, now)
                if self._ledger is not None:
                    self._write(self._ledger.record_cancel, order_id, now, reports)
                self._undelivered.extend(reports)

    async def account(self) -> BrokerAccount:
        """Account after the last row."""
        breaks = await self._begin_call()
        account = self.current_account()
        self._end_call(breaks)
        return account

    def current_account(self) -> BrokerAccount:
        """Account after the last row."""
        with self._mutex:
            held = self._account.account
            return BrokerAccount(
                cash=held.cash,
                units=held.units,
                open_units=self._orders.open_units(),
                costs=held.costs,
                carried_units=held.open_units,
                row_costs=held.row_costs,
                row_traded=held.row_traded,
                time=self._clock(),
            )

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """State of those of these orders that it accepted."""
        breaks = await self._begin_call()
        states = self.order_states(order_ids)
        self._end_call(breaks)
        return states

    def order_states(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """State of those of these orders that it accepted."""
        with self._mutex:
            states = {order_id: self._orders.state(order_id) for order_id in order_ids}
        return {order_id: state for order_id, state in states.items() if state is not None}

    async def open_orders(self) -> list[BrokerOrder]:
        """Orders that are open."""
        breaks = await self._begin_call()
        orders = self.resting_orders()
        self._end_call(breaks)
        return orders

    def resting_orders(self) -> list[BrokerOrder]:
        """Orders that are open."""
        with self._mutex:
            return self._orders.open_orders()

    async def instruments(self) -> Mapping[str, Instrument]:
        """Lots, ticks and minimum sizes by asset."""
        return self._instruments

    async def reports(self) -> list[ExecutionReport]:
        """Execution reports since the last call; after a restart, the last ones again."""
        breaks = await self._begin_call()
        with self._mutex:
            if self._undelivered:
                if self._ledger is not None:
                    self._ledger.record_delivery(len(self._undelivered))
                batch = self._deliver(len(self._undelivered))
            else:
                # Not recorded: until others are delivered, they are repeated after a restart.
                batch = self._faults.shuffled(self._repeated, self._deliveries)
                self._repeated = []
        self._end_call(breaks)
        return batch

    async def see(self, bar: Bar) -> None:
        """Fill due orders in a row, unless the row is known."""
        breaks = await self._begin_call()
        row_time = bar_time(bar)
        with self._mutex:
            if self.last_time is None or row_time > self.last_time:
                now = self._clock()
                reports = self._orders.fill_row(bar, now)
                self.last_time = row_time
                self._undelivered.extend(reports)
                if self._ledger is not None:
                    self._write(self._ledger.record_row, bar, now, self._account, reports)
        self._end_call(breaks)

    def hold(self) -> None:
        """Buffer rows until `write_held`, or until an order is accepted or cancelled."""
        if self._ledger is not None:
            self._ledger.hold()

    def write_held(self) -> None:
        """Write buffered rows to the ledger."""
        if self._ledger is not None:
            with self._mutex:
                self._write(self._ledger.write_held)

    def save_snapshot(self) -> None:
        """Save the state beside the ledger, so that a restart replays only what follows.

        Raises:
            JournalError: it cannot be written; the ledger goes on, and a restart takes longer.
        """
        if self._ledger is None or self._failure is not None:
            return
        with self._mutex:
            self._write(self._ledger.write_held)
            self._write(self._ledger.record_deliveries)
            self._ledger.save_snapshot(
                {
                    "account": self._account.state_dict(),
                    "orders": self._orders.state_dict(),
                    "last_time": self.last_time,
                    "delivered": [self._delivered, self._deliveries],
                    **{name: all_fields(getattr(self, f"_{name}")) for name in REPORT_LISTS},
                }
            )

    async def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    async def _begin_call(self) -> bool:
        """Inject the faults before a call; return True to lose the connection after it."""
        call, self._calls = self._calls, self._calls + 1
        if wait := self._faults.seconds_late(call):
            await asyncio.sleep(wait)
        self._require_intact()
        if not self._is_connected:
            raise BrokerError("not connected to the paper broker; call connect() first")
        breaks = self._faults.break_in(call)
        if breaks == "before":
            self._lose_connection()
        return breaks == "after"

    def _require_intact(self) -> None:
        if self._failure is not None:
            raise JournalError(
                f"paper broker stopped, its ledger is behind: {self._failure}; create another one "
                f"on the ledger"
            ) from self._failure

    def _end_call(self, breaks: bool) -> None:
        if breaks:
            self._lose_connection()

    def _lose_connection(self) -> NoReturn:
        self._is_connected = False
        raise BrokerError("connection to the paper broker lost before it answered")

    def _write(self, write: Callable[..., None], *values: Any) -> None:
        """Write to the ledger; after a failure nothing is answered any more."""
        try:
            write(*values)
        except BaseException as error:
            # Also on an interrupt: the state is ahead of the ledger.
            self._failure = error
            raise

    def _deliver(self, count: int) -> list[ExecutionReport]:
        new = [self._undelivered.popleft() for _ in range(count)]
        batch = self._faults.shuffled([*self._repeated, *new], self._deliveries)
        # As a replay of the ledger knows it: without what a restart repeated.
        self._last_delivered = self._faults.shuffled([*self._duplicates, *new], self._deliveries)
        self._duplicates = self._repeated = [
            report
            for number, report in enumerate(new, self._delivered)
            if self._faults.happens("duplicate_report", number)
        ]
        self._delivered += count
        self._deliveries += 1
        return batch

    def _opening(self, delay: int) -> dict[str, Any]:
        account = self._account
        return {
            **holdings(account),
            "history": account.history.digest,
            "assets": list(account.assets),
            "execution": asdict(account.execution),
            "delay": delay,
            "faults": self._faults.to_dict(),
            "instruments": [asdict(instrument) for instrument in self._instruments.values()],
        }

    def _rebuild(self, ledger: PaperLedger) -> None:
        """Replay the ledger after its snapshot, and compare the results with those it records."""
        if ledger.state is not None:
            self._load(ledger.state)
        for record in ledger.past_records():
            for count in record.fields.get("sent", ()):
                self._deliver(count)
            if record.kind in ("segment", "snapshot"):
                continue
            try:
                reports = self._replay(record.kind, record.fields)
            except ValueError as error:
                raise ledger.mismatch(record, f"is refused: {error}") from error
            if record.kind == "bar":
                self.last_time = record.fields["time"]
                for name, value in holdings(self._account).items():
                    ledger.check(record, name, value)
            ledger.check(record, "reports", report_rows(reports))
            self._undelivered.extend(reports)
        # The last delivery may not have been journaled by the client.
        self._repeated = self._last_delivered

    def _load(self, state: Mapping[str, Any]) -> None:
        try:
            self._account.load_state_dict(state["account"])
            self._orders.load_state_dict(state["orders"])
            self._delivered, self._deliveries = state["delivered"]
            self.last_time = state["last_time"]
            self._undelivered = deque(map(report_from_fields, state["undelivered"]))
            self._duplicates = [report_from_fields(item) for item in state["duplicates"]]
            self._last_delivered = [report_from_fields(item) for item in state["last_delivered"]]
            self._repeated = self._duplicates
        except (StateError, KeyError, TypeError, ValueError) as error:
            raise JournalError(
                f"the snapshot of the ledger is of another account or version: {error!r}; move it "
                f"away to replay all of the ledger"
            ) from error

    def _replay(self, kind: str, fields: Mapping[str, Any]) -> list[ExecutionReport]:
        now = fields["broker_time"]
        if kind == "bar":
            return self._orders.fill_row(bar_from_fields(fields), now)
        if kind == "order":
            return self._orders.submit(order_from_fields(fields), now)
        return self._orders.cancel(fields["id"], now)


class _PaperControl(Broker):
    """Control connection of a paper broker."""

    def __init__(self, broker: PaperBroker) -> None:
        self._broker = broker

    def control(self) -> Broker:
        return self

    async def connect(self) -> None:
        return

    async def submit(self, order: BrokerOrder) -> None:
        self._broker.accept(order)

    async def cancel(self, order_id: str) -> None:
        self._broker.withdraw(order_id)

    async def account(self) -> BrokerAccount:
        return self._broker.current_account()

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        return self._broker.order_states(order_ids)

    async def open_orders(self) -> list[BrokerOrder]:
        return self._broker.resting_orders()

    async def instruments(self) -> Mapping[str, Instrument]:
        return await self._broker.instruments()

    async def reports(self) -> list[ExecutionReport]:
        return []


def _ledger_file(ledger: Path | str | None) -> Path | None:
    if ledger is None:
        return None
    path = Path(ledger)
    file = path if path.suffix and not path.is_dir() else SessionFolder(path).paper
    private_folder(file.parent)
    return file
