"""The journal of a session, with the log of trades that follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sekai.live.journal import Journal, Record, RecordKind, Sync, read_journal
from sekai.live.session_folder import SessionFolder
from sekai.live.trade_log import TradeLog

__all__ = ["SessionJournal"]


class SessionJournal:
    """Writes down what happens; every fill that it is told stands in the trade log too."""

    def __init__(self, folder: SessionFolder, sync: Sync) -> None:
        """Begin, or go on where the journal ends.

        Args:
            folder: of the session.
            sync: when records are made to survive a power cut.

        Raises:
            JournalError: another process has it, or it is damaged.
        """
        self._journal = Journal(folder.journal, sync, session=folder.path.name)
        self.records: list[Record] = list(read_journal(folder.journal))
        """What was written before; whoever has read it lets it go."""

        self._trades = TradeLog(Path(folder.trades), self.records)

    def append(self, kind: RecordKind, /, **fields: Any) -> Record:
        """Write down what happened; see `Journal.append`."""
        record = self._journal.append(kind, **fields)
        self._trades.see(record)
        return record

    def make_durable(self) -> None:
        """Return when all of it would survive a power cut; any thread may call it."""
        self._journal.make_durable()

    def close(self) -> None:
        """Let others open it. Closing twice is no error."""
        self._trades.close()
        self._journal.close()
