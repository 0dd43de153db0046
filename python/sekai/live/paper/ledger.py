"""Ledger of a paper broker: a journal from which the broker is rebuilt, and its snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sekai.data import Bar
from sekai.error import JournalError
from sekai.live.events import bar_fields
from sekai.live.journal import Journal, JournalRecord, RecordKind, read_journal
from sekai.live.orders import BrokerOrder, ExecutionReport, order_fields, report_fields
from sekai.live.paper.account import PaperAccount
from sekai.live.snapshot import SnapshotFiles, remove_drafts

__all__ = ["PaperLedger", "all_fields", "holdings", "report_rows"]

LEDGER_FORMAT = 4
"""Format number in the opening record of a ledger."""


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
            "reports": report_rows(self.reports),
            "sent": self.deliveries,
        }


class PaperLedger:
    """Ledger of a paper broker: a journal from which the broker is rebuilt.

    A record has an input, its result, and the number of reports delivered since the record before.
    Deliveries after the last record are not recorded: those reports are delivered again.

    Records survive the death of the process, and not a power cut: no real money depends on them.

    Snapshots are beside it, such as `paper.snapshot.1.json`; records before the newest usable one
    are not read.

    Args:
        path: the file.
        opening: initial state and settings; a ledger with another opening is refused.
    """

    def __init__(self, path: Path, opening: Mapping[str, Any]) -> None:
        self.path = path
        self._opening = {"format": LEDGER_FORMAT, **json.loads(json.dumps(opening))}
        self._deliveries: list[int] = []
        self._held: list[_LedgerRow] | None = None
        self._files = SnapshotFiles(path.with_name(f"{path.stem}.snapshot.json"))
        snapshot = self._files.newest(path, [])
        self._start = None if snapshot is None else snapshot.position
        self._journal = Journal(path, sync="never", start=self._start)
        self._is_new = self._journal.count <= 1
        self.state: Mapping[str, Any] | None = None
        """State of the broker at the newest usable snapshot."""

        try:
            # Now that no other process has the ledger.
            remove_drafts(path.parent, *(file.name for file in self._files.paths))
            if snapshot is not None:
                self._check_opening(snapshot.parts.get("opening"))
                self.state = snapshot.parts["broker"]
            elif self._is_new:
                self._journal.append("account", opening=self._opening)
        except BaseException:
            self._journal.close()
            raise

    def past_records(self) -> Iterator[JournalRecord]:
        """Records of earlier processes, after the snapshot or the opening."""
        if self._is_new:
            return
        records = read_journal(self.path, self._start)
        if self.state is None:
            next(records)
            self._check_opening(next(records).fields.get("opening"))
        yield from records

    def record_order(
        self, order: BrokerOrder, time: int, reports: Iterable[ExecutionReport]
    ) -> None:
        """Write an accepted order and its reports."""
        self.write_held()
        self._append("order", **order_fields(order), broker_time=time, reports=report_rows(reports))

    def record_cancel(self, order_id: str, time: int, reports: Iterable[ExecutionReport]) -> None:
        """Write a cancellation and its reports."""
        self.write_held()
        self._append("cancel", id=order_id, broker_time=time, reports=report_rows(reports))

    def record_row(
        self, bar: Bar, time: int, account: PaperAccount, reports: Iterable[ExecutionReport]
    ) -> None:
        """Write or buffer a row, the account after it, and its reports."""
        row = _LedgerRow(bar, time, holdings(account), tuple(reports), self._deliveries)
        self._deliveries = []
        if self._held is not None:
            self._held.append(row)
        else:
            self._journal.append("bar", **row.fields())

    def record_delivery(self, count: int) -> None:
        """Note in the next record that `count` reports were delivered."""
        self._deliveries.append(count)

    def record_deliveries(self) -> None:
        """Write deliveries since the last record, so that a snapshot may include them."""
        if self._deliveries:
            self._append("snapshot")

    def save_snapshot(self, state: Mapping[str, Any]) -> None:
        """Begin a new segment, and write the state of the broker at its start."""
        parts = {"opening": self._opening, "broker": state}
        self._files.write(parts, self._journal.rotate())

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


def holdings(account: PaperAccount) -> dict[str, Any]:
    """Cash and nonzero positions."""
    held = {asset: units for asset, units in account.account.units.items() if units}
    return {"cash": account.cash, "units": held}


def all_fields(reports: Iterable[ExecutionReport]) -> list[dict[str, Any]]:
    """Fields of reports, for a snapshot."""
    return [report_fields(report) for report in reports]


def report_rows(reports: Iterable[ExecutionReport]) -> list[list[Any]]:
    """Reports without fields that follow from the record, since orders wait for the write."""
    return [
        [item.id, item.kind, item.units, item.price, item.cost, item.asset, item.reason]
        for item in reports
    ]
