"""Journal of a session: buffered appends, snapshots, and the trade log derived from it."""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sekai.core.base import Closeable
from sekai.error import JournalError
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.clock import ClockReading
from sekai.live.config import SessionFolder
from sekai.live.episode import ObservedRow
from sekai.live.events import BarEvent, bar_fields
from sekai.live.journal import Journal, JournalRecord, RecordKind, Sync, read_journal
from sekai.live.snapshot import SnapshotFiles, StatefulPart, remove_drafts

__all__ = [
    "SessionJournal",
    "Trade",
    "TradeLog",
    "account_fields",
    "account_from_fields",
    "event_fields",
    "observed_fields",
    "trades_of",
]

FieldsFunction = Callable[..., dict[str, Any]]

OWN_PART = "journal"
"""Name of the part of a snapshot that the journal itself needs."""

ROW_KINDS = ("account", "observed", "decision", "universe")
"""Kinds of records that belong to the row before them."""

REMEMBERED_ORDERS = 10_000
"""Number of orders whose asset and times are kept, so that memory stays bounded."""

MAX_UNWRITTEN_BYTES = 2**20
"""Bytes of trades that are kept while they cannot be written."""

MAX_LINE_BYTES = 2**16
"""Most bytes of a line of the trade log."""


class SessionJournal:
    """Journal of a session, with its snapshots and the trade log of its fills.

    Records before the newest usable snapshot are not read.

    Args:
        folder: session folder.
        sync: when records are synced to disk.
        broker: writes its buffered rows before the journal does.

    Raises:
        JournalError: the journal is open in another process, or damaged after the snapshot.
    """

    def __init__(self, folder: SessionFolder, sync: Sync, broker: Broker) -> None:
        self._broker = broker
        self._files = SnapshotFiles(folder.snapshot)
        self.warnings: list[str] = []
        """Reasons why snapshots are not used."""

        self.snapshot = self._files.newest(folder.journal, self.warnings)
        """Snapshot to recover from; None to replay all records."""

        self._start = None if self.snapshot is None else self.snapshot.position
        name = folder.path.name
        self._journal = Journal(folder.journal, sync, session=name, start=self._start)
        self.trades = TradeLog(folder.trades)
        self.begun: Mapping[str, Any] = {}
        """Fields of the `begun` record; empty before it."""

        self.last_row: list[JournalRecord] = []
        """Records of the last row: bar, account, observation, decisions and universe changes."""

        self._held: list[tuple[RecordKind, FieldsFunction, tuple[Any, ...]]] | None = None
        try:
            # Now that no other process has the session.
            own = (folder.status, *self._files.paths)
            remove_drafts(folder.path, *(path.name for path in own))
            if self.snapshot is not None:
                self._load(self.snapshot.parts)
        except BaseException:
            self._journal.close()
            raise

    @property
    def count(self) -> int:
        """Number of written records."""
        return self._journal.count

    @property
    def torn(self) -> bytes:
        """Bytes cut off when it was opened: an incomplete last record."""
        return self._journal.torn

    def replay(self) -> Iterator[JournalRecord]:
        """Records after the snapshot one by one, which also continue the trade log."""
        for record in read_journal(self._journal.path, self._start):
            self._note(record)
            yield record

    def append(self, kind: RecordKind, /, **fields: Any) -> None:
        """Append a record, or buffer it after `hold`; see `Journal.append`."""
        self.append_of(kind, dict, fields)

    def append_of(self, kind: RecordKind, make_fields: FieldsFunction, /, *values: Any) -> None:
        """Append a record whose fields are computed when it is written.

        Args:
            kind: kind of the record.
            make_fields: function that computes the fields.
            values: its arguments, which must not change until then.
        """
        if self._held is not None:
            self._held.append((kind, make_fields, values))
        else:
            self._note(self._journal.append(kind, **make_fields(*values)))

    def hold(self) -> None:
        """Buffer appends until `write_held`, so that a decision need not wait for the disk.

        `write_held` must be called before acting on any of them. The broker buffers as well.
        """
        if self._held is None:
            self._held = []
            self._broker.hold()

    def write_held(self) -> None:
        """Write buffered records in order, and stop buffering."""
        held, self._held = self._held or [], None
        # The ledger first: the journal must never know of a row that the broker does not.
        self._broker.write_held()
        if held:
            records = [(kind, make_fields(*values)) for kind, make_fields, values in held]
            for record in self._journal.append_all(records):
                self._note(record)

    def save_snapshot(self, parts: Mapping[str, StatefulPart], row: int) -> None:
        """Begin a new segment, and save the states of all parts at its start.

        Call it between rows. A restart reads no record before it.

        Args:
            parts: parts by name.
            row: number of rows of the session.

        Raises:
            ValueError: a state cannot be encoded.
            JournalError: it cannot be written. The one before is used after a restart; the journal
                can be written unless it says otherwise itself.
        """
        self.write_held()
        self._broker.save_snapshot()
        position = self._journal.rotate()
        states = {name: part.state_dict() for name, part in parts.items()}
        row_records = [
            {"number": record.number, "time": record.time, "kind": record.kind,
             "fields": record.fields}
            for record in self.last_row
        ]  # fmt: skip
        own = {"begun": self.begun, "last_row": row_records, "trades": self.trades.state_dict()}
        self._files.write({**states, OWN_PART: own}, position)
        self.append("snapshot", row=row)

    def make_durable(self) -> None:
        """Sync the journal to disk; may be called from any thread."""
        self._journal.make_durable()

    def close(self) -> None:
        """Close the files. Closing twice is no error."""
        try:
            self.trades.close()
        finally:
            self._journal.close()

    def _load(self, parts: Mapping[str, Any]) -> None:
        try:
            own = parts[OWN_PART]
            self.begun = own["begun"]
            self.last_row = [JournalRecord(**record) for record in own["last_row"]]
            self.trades.load_state_dict(own["trades"])
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"the snapshot was written by another version: {error!r}") from error

    def _note(self, record: JournalRecord) -> None:
        if record.kind == "bar":
            self.last_row = [record]
        elif record.kind in ROW_KINDS and self.last_row:
            self.last_row.append(record)
        elif record.kind == "begun":
            self.begun = record.fields
        self.trades.add(record)


def event_fields(event: BarEvent, reading: ClockReading) -> dict[str, Any]:
    """Fields of a `bar` record, with the clocks when it was processed."""
    return {
        **bar_fields(event.bar),
        "exchange_time": event.exchange_time,
        "receive_time": event.receive_time,
        "sequence": event.sequence,
        "is_late": event.is_late,
        "boot": [reading.boot, reading.boot_id],
    }


def account_fields(account: BrokerAccount, assets: Sequence[str]) -> dict[str, Any]:
    """Fields of an `account` record: the account as the env was given it."""
    units, carried = account.arrays(assets)
    return {
        "cash": account.cash,
        "units": units,
        "open_units": carried,
        "costs": dict(account.row_costs),
        "traded": account.row_traded,
    }


def account_from_fields(fields: Mapping[str, Any], assets: Sequence[str]) -> BrokerAccount:
    """Account from `account_fields`."""
    carried = dict(zip(assets, fields["open_units"].tolist(), strict=True))
    return BrokerAccount(
        cash=fields["cash"],
        units=dict(zip(assets, fields["units"].tolist(), strict=True)),
        open_units=carried,
        carried_units=carried,
        row_costs=fields["costs"],
        row_traded=fields["traded"],
    )


def observed_fields(observed: ObservedRow) -> dict[str, Any]:
    """Fields of an `observed` record, with a digest in place of the observation."""
    return {
        "row": observed.row,
        "digest": observed.digest,
        "reward": observed.reward,
        "equity": observed.info["equity"],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """Fill with the times of its order, in nanoseconds since 1970 by this machine's clock."""

    time: int
    """Broker time of the fill; the time of its record if the broker gives none."""

    order_id: str
    report_id: str
    asset: str
    """Empty if the order does not belong to this session."""

    units: float
    price: float
    cost: float
    decided: int | None
    sent: int | None
    """None if the process died before it was recorded."""

    filled: int
    """Time of the record of the fill."""

    def to_json(self) -> str:
        """Trade as a line of JSON."""
        # `asdict` would copy every number: ten times as long.
        values = {name: getattr(self, name) for name in _TRADE_FIELDS}
        for name in ("units", "price", "cost"):
            # JSON has no NaN.
            values[name] = values[name] if math.isfinite(values[name]) else None
        return json.dumps(values, allow_nan=False)


_TRADE_FIELDS = tuple(part.name for part in fields(Trade))


def trades_of(journal: str | os.PathLike[str] | Iterable[JournalRecord]) -> list[Trade]:
    """Fills of a journal in order; a report that was received twice counts once."""
    if isinstance(journal, (str, os.PathLike)):
        journal = read_journal(journal)
    return list(_TradeBuilder().trades(journal))


class TradeLog(Closeable):
    """Trade log: file with a line for each fill of a session.

    It is derived from the journal. A file that cannot be written is a `problem` to report and
    stops nothing: its lines are written later, and `trades_of` the journal has all of them.

    Args:
        path: the file; its content is replaced, or continued after `load_state_dict`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.problem: str | None = None
        """Reason why lines are missing in the file."""

        self._builder = _TradeBuilder()
        self._file: int | None = None
        self._bytes = 0
        self._unwritten = b""
        self._is_closed = False

    def add(self, record: JournalRecord) -> Trade | None:
        """Take in the next journal record, and write its fill if it is one."""
        if self._is_closed:
            raise JournalError(f"trades cannot be written to {self.path}: it is closed")
        trade = self._builder.add(record)
        if trade is not None:
            self._unwritten += f"{trade.to_json()}\n".encode("ascii")
        if trade is not None or self._file is None:
            self._write()
        return trade

    def state_dict(self) -> dict[str, Any]:
        """State of the orders, and length of the file."""
        return {
            "orders": self._builder.rows(),
            "bytes": self._bytes,
            "unwritten": self._unwritten.decode("ascii"),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after a saved state; lines after it are cut off, and added again."""
        self._builder.load_rows(state["orders"])
        self._bytes, self._unwritten = int(state["bytes"]), state["unwritten"].encode("ascii")

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _write(self) -> None:
        try:
            file = self._file = self._opened() if self._file is None else self._file
            # What a failed write left behind it.
            if os.fstat(file).st_size > self._bytes:
                os.ftruncate(file, self._bytes)
            if self._unwritten:
                written = os.write(file, self._unwritten)
                if written != len(self._unwritten):
                    raise OSError(f"only {written} of {len(self._unwritten)} bytes written")
                self._bytes, self._unwritten = self._bytes + written, b""
        except OSError as error:
            self._report(f"trades cannot be written to {self.path}: {error}")
            if len(self._unwritten) > MAX_UNWRITTEN_BYTES:
                self._unwritten = b""

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        file = os.open(self.path, flags, 0o600)
        size = os.fstat(file).st_size
        if size < self._bytes:
            self._report(f"{self.path} has lost {self._bytes - size} bytes")
            end = os.pread(file, MAX_LINE_BYTES, max(0, size - MAX_LINE_BYTES)).rfind(b"\n") + 1
            self._bytes = max(0, size - MAX_LINE_BYTES) + end
        return file

    def _report(self, problem: str) -> None:
        self.problem = f"{problem}; trades_of(journal) has all trades"


@dataclass(slots=True)
class _OrderTimes:
    asset: str
    decided: int | None
    sent: int | None = None
    report_ids: set[str] = field(default_factory=set)


class _TradeBuilder:
    """Builds trades from journal records."""

    def __init__(self) -> None:
        self._orders: OrderedDict[str, _OrderTimes] = OrderedDict()

    def rows(self) -> list[list[Any]]:
        """Remembered orders as plain values."""
        return [
            [order_id, known.asset, known.decided, known.sent, sorted(known.report_ids)]
            for order_id, known in self._orders.items()
        ]

    def load_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        self._orders = OrderedDict(
            (order_id, _OrderTimes(asset, decided, sent, set(report_ids)))
            for order_id, asset, decided, sent, report_ids in rows
        )

    def trades(self, records: Iterable[JournalRecord]) -> Iterator[Trade]:
        return (trade for trade in map(self.add, records) if trade is not None)

    def add(self, record: JournalRecord) -> Trade | None:
        try:
            return self._add(record)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise JournalError(
                f"record {record.number} of kind {record.kind} has missing or invalid fields: "
                f"{error!r}"
            ) from error

    def _add(self, record: JournalRecord) -> Trade | None:
        if record.kind == "decision":
            for order in record.fields["orders"]:
                self._remember(str(order["id"]), _OrderTimes(str(order["asset"]), record.time))
        elif record.kind == "sent":
            known = self._orders.get(str(record.fields["id"]))
            if known is not None and known.sent is None:
                known.sent = record.time
        elif record.kind == "report" and record.fields["kind"] == "filled":
            return self._fill(record.time, record.fields)
        return None

    def _remember(self, order_id: str, times: _OrderTimes) -> _OrderTimes:
        # An order that is journaled again is the same order.
        known = self._orders.setdefault(order_id, times)
        if len(self._orders) > REMEMBERED_ORDERS:
            self._orders.popitem(last=False)
        return known

    def _fill(self, now: int, report: Mapping[str, Any]) -> Trade | None:
        order_id, report_id = str(report["order_id"]), str(report["id"])
        known = self._orders.get(order_id) or self._remember(order_id, _OrderTimes("", None))
        if report_id in known.report_ids:
            return None
        known.report_ids.add(report_id)
        return Trade(
            time=int(report["broker_time"]) or now,
            order_id=order_id,
            report_id=report_id,
            asset=known.asset or str(report.get("asset", "")),
            units=float(report["units"]),
            price=float(report["price"]),
            cost=float(report["cost"]),
            decided=known.decided,
            sent=known.sent,
            filled=now,
        )
