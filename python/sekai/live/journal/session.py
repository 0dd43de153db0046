"""Journal of a session: buffered appends, its records, and the trade log derived from it."""

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
from sekai.live.config import SessionFolder
from sekai.live.episode import ObservedRow
from sekai.live.events import BarEvent, bar_fields
from sekai.live.journal import Journal, JournalRecord, RecordKind, Sync, read_journal
from sekai.storage.files import atomic_write

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

REMEMBERED_ORDERS = 10_000
"""Number of orders whose asset and times are kept, so that memory stays bounded."""


class SessionJournal:
    """Journal of a session, with the trade log of its fills.

    Args:
        folder: session folder.
        sync: when records are synced to disk.
        broker: writes its buffered rows before the journal does.

    Raises:
        JournalError: the journal is open in another process, or damaged.
    """

    def __init__(self, folder: SessionFolder, sync: Sync, broker: Broker) -> None:
        self._broker = broker
        self._journal = Journal(folder.journal, sync, session=folder.path.name)
        try:
            self._trades = TradeLog(folder.trades, self.records())
        except BaseException:
            self._journal.close()
            raise
        self._held: list[tuple[RecordKind, FieldsFunction, tuple[Any, ...]]] | None = None

    @property
    def count(self) -> int:
        """Number of written records."""
        return self._journal.count

    def records(self) -> Iterator[JournalRecord]:
        """Written records, read one by one."""
        return read_journal(self._journal.path)

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
            self._trades.add(self._journal.append(kind, **make_fields(*values)))

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
                self._trades.add(record)

    def make_durable(self) -> None:
        """Sync the journal to disk; may be called from any thread."""
        self._journal.make_durable()

    def close(self) -> None:
        """Close the files. Closing twice is no error."""
        try:
            self._trades.close()
        finally:
            self._journal.close()


def event_fields(event: BarEvent) -> dict[str, Any]:
    """Fields of a `bar` record."""
    return {
        **bar_fields(event.bar),
        "exchange_time": event.exchange_time,
        "receive_time": event.receive_time,
        "sequence": event.sequence,
        "is_late": event.is_late,
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

    It is derived from the journal and rewritten from it after a crash.

    Args:
        path: the file, which is replaced.
        records: the journal so far.
    """

    def __init__(self, path: str | os.PathLike[str], records: Iterable[JournalRecord] = ()) -> None:
        self.path = Path(path)
        self._builder = _TradeBuilder()
        lines = (f"{trade.to_json()}\n".encode("ascii") for trade in self._builder.trades(records))
        try:
            # One by one: a long session has more trades than fit into memory.
            atomic_write(self.path, lines, fsync=False)
            self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise JournalError(f"trades cannot be written to {self.path}: {error}") from error

    def add(self, record: JournalRecord) -> Trade | None:
        """Take in the next journal record, and write its fill if it is one.

        Raises:
            JournalError: the fill cannot be written here; it is in the journal.
        """
        trade = self._builder.add(record)
        if trade is None:
            return None
        if self._file is None:
            raise JournalError(f"trades cannot be written to {self.path}: it is closed")
        line = f"{trade.to_json()}\n".encode("ascii")
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise JournalError(f"trades cannot be written to {self.path}: {error}") from error
        if written != len(line):
            raise JournalError(f"only {written} of {len(line)} bytes written to {self.path}")
        return trade

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


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
