"""The file of a paper broker: all that it took, saw and said, from which it is rebuilt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sekai.data import Bar
from sekai.error import JournalError
from sekai.live.bar_records import bar_fields
from sekai.live.journal import Journal, Record, RecordKind, read_journal
from sekai.live.order_records import order_fields
from sekai.live.orders import Order, OrderReport
from sekai.live.paper_account import PaperAccount

__all__ = ["PaperLedger", "holdings", "said"]

FORMAT = 2
"""What the opening says, and this version reads."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that was seen, and what came of it."""

    bar: Bar
    time: int
    held: dict[str, Any]
    reports: tuple[OrderReport, ...]
    sent: list[int]

    def fields(self) -> dict[str, Any]:
        told = {**bar_fields(self.bar), **self.held, "broker_time": self.time}
        return {**told, "reports": said(self.reports), "sent": self.sent}


class PaperLedger:
    """A journal that begins with what the broker began with.

    A record tells what was done, what came of it, and what was said since the record before. What
    was said after the last record is not told: who goes on from there says it again.

    What it writes survives the death of the process, not that of the machine: it is about money
    that nobody has.
    """

    def __init__(self, path: Path, opening: Mapping[str, Any]) -> None:
        """Open it, or begin one.

        Args:
            path: the file.
            opening: what the broker begins with; a ledger that began otherwise is refused.
        """
        self.path = path
        self._opening = {"format": FORMAT, **json.loads(json.dumps(opening))}
        self._sent: list[int] = []
        self._held: list[_Row] | None = None
        self._journal = Journal(path, sync="never")
        self._is_new = self._journal.count <= 1
        if self._is_new:
            self._journal.append("account", opening=self._opening)

    def past(self) -> Iterator[Record]:
        """What was written in earlier lives, after the opening."""
        if self._is_new:
            return
        records = read_journal(self.path)
        next(records)
        self._check(next(records).fields.get("opening"))
        yield from records

    def took(self, order: Order, time: int, reports: Iterable[OrderReport]) -> None:
        """Write down an order that is taken, and what is said about it."""
        self.write_held()
        self._append("order", **order_fields(order), broker_time=time, reports=said(reports))

    def dropped(self, order_id: str, time: int, reports: Iterable[OrderReport]) -> None:
        """Write down that an order is cancelled, and what is said about it."""
        self.write_held()
        self._append("cancel", id=order_id, broker_time=time, reports=said(reports))

    def saw(
        self, bar: Bar, time: int, account: PaperAccount, reports: Iterable[OrderReport]
    ) -> None:
        """Write down a row, what the account has after it, and what is said about it."""
        row, self._sent = _Row(bar, time, holdings(account), tuple(reports), self._sent), []
        if self._held is not None:
            self._held.append(row)
        else:
            self._journal.append("bar", **row.fields())

    def hold(self) -> None:
        """Keep rows in mind until `write_held`, or until something else is written."""
        if self._held is None:
            self._held = []

    def write_held(self) -> None:
        """Write the rows that were kept in mind, and whatever comes without delay from now on."""
        held, self._held = self._held, None
        if held:
            self._journal.append_all([("bar", row.fields()) for row in held])

    def handed_out(self, count: int) -> None:
        """Tell in the next record how many reports somebody asked for and got."""
        self._sent.append(count)

    def close(self) -> None:
        """Let others open it. What was kept in mind and never written was not relied on."""
        self._journal.close()

    def check(self, record: Record, name: str, found: object) -> None:
        """See that what happens again is what a record tells.

        Raises:
            JournalError: it is not.
        """
        wanted = record.fields[name]
        if wanted != found:
            raise self.cannot_be(record, f"gives {name} {found}, then it gave {wanted}")

    def cannot_be(self, record: Record, words: str) -> JournalError:
        """The error that doing again what a record tells comes to something else."""
        return JournalError(
            f"record {record.number} of {self.path} cannot be: doing the same again {words}. It "
            f"was written by another version, or the account is not the one it was"
        )

    def _append(self, kind: RecordKind, **fields: Any) -> None:
        self._journal.append(kind, **fields, sent=self._sent)
        self._sent = []

    def _check(self, found: Any) -> None:
        wanted = self._opening
        if not isinstance(found, dict):
            raise JournalError(f"{self.path} is a journal, and not that of a paper broker")
        if found.get("format") != FORMAT:
            raise JournalError(
                f"{self.path} was written by another version: a ledger of format {FORMAT} was "
                f"wanted, found {found.get('format', 1)!r:.40}. Go on with that version, or begin "
                f"another ledger"
            )
        names = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
        if names:
            words = [f"{name} {found.get(name)!r}, now {wanted.get(name)!r}" for name in names]
            raise JournalError(
                f"{self.path} was begun with other settings: {'; '.join(words)}. Give the same, or "
                f"begin another ledger"
            )


def holdings(account: PaperAccount) -> dict[str, Any]:
    """Cash and what is held, by name."""
    held = {asset: units for asset, units in account.units.items() if units}
    return {"cash": account.cash, "units": held}


def said(reports: Iterable[OrderReport]) -> list[list[Any]]:
    """Reports without what their ids and the record tell already: orders wait for the writing."""
    return [
        [one.id, one.kind, one.units, one.price, one.cost, one.asset, one.reason] for one in reports
    ]
