"""The folder of a live session: where each part of it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["SessionFolder"]


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A folder with all that became of a live session."""

    path: Path

    @property
    def facts(self) -> Path:
        """What the session is: its env, its limits, its versions."""
        return self.path / "session.json"

    @property
    def journal(self) -> Path:
        """Everything that came in, was decided and was done, in order."""
        return self.path / "journal.jsonl"

    @property
    def snapshot(self) -> Path:
        """The env as it was, and where in the journal that was."""
        return self.path / "snapshot.json"

    @property
    def status(self) -> Path:
        """How it is doing, for those who watch; replaced about once a second."""
        return self.path / "status.json"

    @property
    def log(self) -> Path:
        """Words for people and machines, a line of JSON each."""
        return self.path / "log.jsonl"

    @property
    def trades(self) -> Path:
        """Every fill, a line of JSON each."""
        return self.path / "trades.jsonl"

    @property
    def paper(self) -> Path:
        """The ledger of the paper broker, if there is one."""
        return self.path / "paper.jsonl"

    @property
    def kill(self) -> Path:
        """While this file is there, nothing is traded; anybody who may write it can stop it."""
        return self.path / "KILL"
