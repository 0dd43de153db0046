"""The journal of a session, with the log of trades that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sekai.live.broker import Broker
from sekai.live.journal import Journal, Record, RecordKind, Sync, read_journal
from sekai.live.session_folder import SessionFolder
from sekai.live.trade_log import TradeLog

__all__ = ["SessionJournal"]

FieldsOf = Callable[..., dict[str, Any]]


class SessionJournal:
    """Writes down what happens; every fill that it is told stands in the trade log too."""

    def __init__(self, folder: SessionFolder, sync: Sync, broker: Broker) -> None:
        """Begin, or go on where the journal ends.

        Args:
            folder: of the session.
            sync: when records are made to survive a power cut.
            broker: whose answers are written down: it writes what it holds before the journal.

        Raises:
            JournalError: another process has it, or it is damaged.
        """
        self._broker = broker
        self._journal = Journal(folder.journal, sync, session=folder.path.name)
        try:
            self._trades = TradeLog(Path(folder.trades), self.records())
        except BaseException:
            self._journal.close()
            raise
        self._held: list[tuple[RecordKind, FieldsOf, tuple[Any, ...]]] | None = None

    @property
    def count(self) -> int:
        """How many records are written."""
        return self._journal.count

    def records(self) -> Iterator[Record]:
        """What is written, one by one: all of it may be more than fits into memory."""
        return read_journal(self._journal.path)

    def append(self, kind: RecordKind, /, **fields: Any) -> None:
        """Write down what happened, or have it written when all is; see `Journal.append`."""
        self.append_of(kind, dict, fields)

    def append_of(self, kind: RecordKind, fields_of: FieldsOf, /, *facts: Any) -> None:
        """Like `append`, of fields that are worked out when they are written.

        Args:
            kind: of the record.
            fields_of: what makes fields of the facts.
            facts: what nobody changes until they are written.
        """
        if self._held is not None:
            self._held.append((kind, fields_of, facts))
        else:
            self._trades.see(self._journal.append(kind, **fields_of(*facts)))

    def hold(self) -> None:
        """Keep what is appended in mind until `write_held`: a decision need not wait for it.

        Whoever acts on any of it has it written first. The broker keeps in mind what it would
        write, too.
        """
        if self._held is None:
            self._held = []
            self._broker.hold()

    def write_held(self) -> None:
        """Write what was kept in mind, in order, and whatever comes without delay from now on."""
        held, self._held = self._held or [], None
        # First: a journal that knows more than the broker would decide on what never was.
        self._broker.write_held()
        if held:
            records = [(kind, fields_of(*facts)) for kind, fields_of, facts in held]
            for record in self._journal.append_all(records):
                self._trades.see(record)

    def make_durable(self) -> None:
        """Return when all of it would survive a power cut; any thread may call it."""
        self._journal.make_durable()

    def close(self) -> None:
        """Let others open it. Closing twice is no error."""
        try:
            self._trades.close()
        finally:
            self._journal.close()
