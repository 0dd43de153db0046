"""Paper broker: fills orders in the rows of a feed, with a ledger to recover from."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from sekai.core.env import Env
from sekai.data import Bar
from sekai.envs.portfolio import Portfolio
from sekai.error import BrokerError, JournalError
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.config import SessionFolder
from sekai.live.events import bar_fields, bar_from_fields, bar_time
from sekai.live.journal import Journal, JournalRecord, RecordKind, read_journal
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderState,
    order_fields,
    order_from_fields,
)
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.faults import PaperFaults
from sekai.live.paper.orders import PaperOrders

__all__ = ["PaperBroker"]

LEDGER_FORMAT = 3
"""Format number in the opening record of a ledger."""


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
    ) -> None:
        if account.execution.delay:
            raise ValueError(
                f"the account must have a delay of 0, got {account.execution.delay}; use "
                f"PaperBroker.like(env), or PaperBroker(..., delay=...)"
            )
        self._faults = faults or PaperFaults()
        self._clock = clock
        self._account = account
        self._orders = PaperOrders(account, self._faults, delay)
        self.last_time: int | None = None
        """Timestamp of the last row in nanoseconds since 1970 in UTC."""

        self._undelivered: deque[ExecutionReport] = deque()
        self._repeated: list[ExecutionReport] = []
        self._delivered = self._deliveries = self._calls = 0
        self._is_connected = True
        self._failure: BaseException | None = None
        self._ledger = None if ledger is None else _PaperLedger(ledger, self._opening(delay))
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
    ) -> PaperBroker:
        """Paper broker with the rules, rows and delay of a `Portfolio`, wrapped or not.

        Args:
            env: the env.
            ledger: file of the ledger, or the session folder, where it is `paper.jsonl`: a folder,
                or a path without a suffix. Missing folders are created.
            faults: faults to inject.
            clock: nanoseconds since 1970 in UTC.
        """
        portfolio = env.unwrapped
        if not isinstance(portfolio, Portfolio):
            raise TypeError(f"expected a Portfolio env, got {portfolio!r}")
        account, delay = PaperAccount.like(env, delay=0), portfolio.config.execution.delay
        return cls(account, _ledger_file(ledger), faults, delay=delay, clock=clock)

    async def connect(self) -> None:
        """Connect, or reconnect after an injected disconnect."""
        self._is_connected = True

    async def submit(self, order: BrokerOrder) -> None:
        """Accept an order; it fills in the next row at the earliest."""
        breaks = await self._begin_call()
        number, is_new, now = len(self._orders), order.id not in self._orders, self._clock()
        reports = self._orders.submit(order, now)
        if is_new and self._ledger is not None:
            self._write(self._ledger.record_order, order, now, reports)
        self._undelivered.extend(reports)
        if is_new and self._faults.happens("lose_acknowledgement", number):
            raise BrokerError(f"acknowledgement of order {order.id} lost; query the order")
        self._end_call(breaks)

    async def cancel(self, order_id: str) -> None:
        """Cancel an order."""
        breaks = await self._begin_call()
        now = self._clock()
        if self._orders.is_open(order_id):
            reports = self._orders.cancel(order_id, now)
            if self._ledger is not None:
                self._write(self._ledger.record_cancel, order_id, now, reports)
            self._undelivered.extend(reports)
        self._end_call(breaks)

    async def account(self) -> BrokerAccount:
        """Account after the last row."""
        breaks = await self._begin_call()
        held = self._account.account
        account = BrokerAccount(
            cash=held.cash,
            units=held.units,
            open_units=self._orders.open_units(),
            costs=held.costs,
            carried_units=held.open_units,
            row_costs=held.row_costs,
            row_traded=held.row_traded,
            time=self._clock(),
        )
        self._end_call(breaks)
        return account

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """State of those of these orders that it accepted."""
        breaks = await self._begin_call()
        states = {order_id: self._orders.state(order_id) for order_id in order_ids}
        self._end_call(breaks)
        return {order_id: state for order_id, state in states.items() if state is not None}

    async def reports(self) -> list[ExecutionReport]:
        """Execution reports since the last call; after a restart, the last ones again."""
        breaks = await self._begin_call()
        if not self._undelivered and not self._repeated:
            self._end_call(breaks)
            return []
        if self._undelivered and self._ledger is not None:
            self._ledger.record_delivery(len(self._undelivered))
        batch = self._deliver(len(self._undelivered))
        self._end_call(breaks)
        return batch

    async def see(self, bar: Bar) -> None:
        """Fill due orders in a row, unless the row is known."""
        breaks = await self._begin_call()
        row_time = bar_time(bar)
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
            self._write(self._ledger.write_held)

    async def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    async def _begin_call(self) -> bool:
        """Inject the faults before a call; return True to lose the connection after it."""
        call, self._calls = self._calls, self._calls + 1
        if wait := self._faults.seconds_late(call):
            await asyncio.sleep(wait)
        if self._failure is not None:
            raise JournalError(
                f"paper broker stopped, its ledger is behind: {self._failure}; create another one "
                f"on the ledger"
            ) from self._failure
        if not self._is_connected:
            raise BrokerError("not connected to the paper broker; call connect() first")
        breaks = self._faults.break_in(call)
        if breaks == "before":
            self._lose_connection()
        return breaks == "after"

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
        self._repeated = [
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
            **_holdings(account),
            "assets": list(account.assets),
            "execution": asdict(account.execution),
            "delay": delay,
            "faults": self._faults.to_dict(),
        }

    def _rebuild(self, ledger: _PaperLedger) -> None:
        """Replay the ledger, and compare the results with those it records."""
        last: list[ExecutionReport] = []
        for record in ledger.past_records():
            for count in record.fields["sent"]:
                last = self._deliver(count)
            try:
                reports = self._replay(record.kind, record.fields)
            except ValueError as error:
                raise ledger.mismatch(record, f"is refused: {error}") from error
            if record.kind == "bar":
                self.last_time = record.fields["time"]
                for name, value in _holdings(self._account).items():
                    ledger.check(record, name, value)
            ledger.check(record, "reports", _report_rows(reports))
            self._undelivered.extend(reports)
        # The last delivery may not have been journaled by the client.
        self._repeated = last

    def _replay(self, kind: str, fields: Mapping[str, Any]) -> list[ExecutionReport]:
        now = fields["broker_time"]
        if kind == "bar":
            return self._orders.fill_row(bar_from_fields(fields), now)
        if kind == "order":
            return self._orders.submit(order_from_fields(fields), now)
        return self._orders.cancel(fields["id"], now)


def _ledger_file(ledger: Path | str | None) -> Path | None:
    if ledger is None:
        return None
    path = Path(ledger)
    file = path if path.suffix and not path.is_dir() else SessionFolder(path).paper
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@dataclass(frozen=True, slots=True)
class _LedgerRow:
    bar: Bar
    time: int
    holdings: dict[str, Any]
    reports: tuple[ExecutionReport, ...]
    deliveries: list[int]

    def fields(self) -> dict[str, Any]:
        return {
            **bar_fields(self.bar),
            **self.holdings,
            "broker_time": self.time,
            "reports": _report_rows(self.reports),
            "sent": self.deliveries,
        }


class _PaperLedger:
    """Ledger of a paper broker: a journal from which the broker is rebuilt.

    A record has an input, its result, and the number of reports delivered since the record before.
    Deliveries after the last record are not recorded: those reports are delivered again.

    Records survive the death of the process, and not a power cut: no real money depends on them.

    Args:
        path: the file.
        opening: initial state and settings; a ledger with another opening is refused.
    """

    def __init__(self, path: Path, opening: Mapping[str, Any]) -> None:
        self.path = path
        self._opening = {"format": LEDGER_FORMAT, **json.loads(json.dumps(opening))}
        self._deliveries: list[int] = []
        self._held: list[_LedgerRow] | None = None
        self._journal = Journal(path, sync="never")
        self._is_new = self._journal.count <= 1
        if self._is_new:
            self._journal.append("account", opening=self._opening)

    def past_records(self) -> Iterator[JournalRecord]:
        """Records of earlier processes, after the opening."""
        if self._is_new:
            return
        records = read_journal(self.path)
        next(records)
        self._check_opening(next(records).fields.get("opening"))
        yield from records

    def record_order(
        self, order: BrokerOrder, time: int, reports: Iterable[ExecutionReport]
    ) -> None:
        """Write an accepted order and its reports."""
        self.write_held()
        self._append(
            "order", **order_fields(order), broker_time=time, reports=_report_rows(reports)
        )

    def record_cancel(self, order_id: str, time: int, reports: Iterable[ExecutionReport]) -> None:
        """Write a cancellation and its reports."""
        self.write_held()
        self._append("cancel", id=order_id, broker_time=time, reports=_report_rows(reports))

    def record_row(
        self, bar: Bar, time: int, account: PaperAccount, reports: Iterable[ExecutionReport]
    ) -> None:
        """Write or buffer a row, the account after it, and its reports."""
        row = _LedgerRow(bar, time, _holdings(account), tuple(reports), self._deliveries)
        self._deliveries = []
        if self._held is not None:
            self._held.append(row)
        else:
            self._journal.append("bar", **row.fields())

    def record_delivery(self, count: int) -> None:
        """Note in the next record that `count` reports were delivered."""
        self._deliveries.append(count)

    def hold(self) -> None:
        """Buffer rows until `write_held`, or until anything else is written."""
        if self._held is None:
            self._held = []

    def write_held(self) -> None:
        """Write buffered rows, and stop buffering."""
        held, self._held = self._held, None
        if held:
            self._journal.append_all([("bar", row.fields()) for row in held])

    def close(self) -> None:
        """Close the file; buffered rows that were never written were not relied on."""
        self._journal.close()

    def check(self, record: JournalRecord, name: str, actual: object) -> None:
        """Raise `JournalError` if the replay of a record gives another result."""
        expected = record.fields[name]
        if expected != actual:
            raise self.mismatch(record, f"gives {name} {actual}, the record has {expected}")

    def mismatch(self, record: JournalRecord, problem: str) -> JournalError:
        """Error for a record whose replay gives another result."""
        return JournalError(
            f"ledger {self.path} does not fit: the replay of record {record.number} {problem}. It "
            f"was written by another version, or for another account"
        )

    def _append(self, kind: RecordKind, **fields: Any) -> None:
        self._journal.append(kind, **fields, sent=self._deliveries)
        self._deliveries = []

    def _check_opening(self, actual: Any) -> None:
        expected = self._opening
        if not isinstance(actual, dict):
            raise JournalError(f"{self.path} is a journal, but not the ledger of a paper broker")
        if actual.get("format") != LEDGER_FORMAT:
            raise JournalError(
                f"{self.path} has ledger format {actual.get('format', 1)!r:.40}, expected "
                f"{LEDGER_FORMAT}; use the version that wrote it, or another file"
            )
        names = [name for name in {**expected, **actual} if expected.get(name) != actual.get(name)]
        if names:
            changes = [
                f"{name} {expected.get(name)!r}, the ledger has {actual.get(name)!r}"
                for name in names
            ]
            raise JournalError(
                f"{self.path} was begun with other settings: {'; '.join(changes)}. Use the same "
                f"settings, or another file"
            )


def _holdings(account: PaperAccount) -> dict[str, Any]:
    """Cash and nonzero positions."""
    held = {asset: units for asset, units in account.account.units.items() if units}
    return {"cash": account.cash, "units": held}


def _report_rows(reports: Iterable[ExecutionReport]) -> list[list[Any]]:
    """Reports without fields that follow from the record, since orders wait for the write."""
    return [
        [item.id, item.kind, item.units, item.price, item.cost, item.asset, item.reason]
        for item in reports
    ]
