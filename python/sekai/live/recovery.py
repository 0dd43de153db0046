"""Recovery of an interrupted session: snapshot of the env, and replay of the journal after it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sekai.data import Bar
from sekai.error import JournalError, StateError
from sekai.live.account import BrokerAccount
from sekai.live.config import SessionFolder
from sekai.live.episode import LiveEpisode
from sekai.live.events import bar_from_fields
from sekai.live.journal import JournalRecord
from sekai.live.journal.session import account_from_fields
from sekai.live.orders import BrokerOrder, OrderTracker, order_from_fields
from sekai.storage.codec import from_text, to_text
from sekai.storage.files import atomic_write
from sekai.storage.strict_json import parse_json

__all__ = [
    "RecordedRow",
    "RecoveredSession",
    "Snapshot",
    "check_serializable",
    "read_snapshot",
    "recorded_rows",
    "recover",
    "write_snapshot",
]

SNAPSHOT_FORMAT = "sekai snapshot 3"
MAX_SNAPSHOT_BYTES = 2**30


@dataclass(slots=True)
class RecordedRow:
    """Row of a session as recorded in the journal."""

    bar: Bar
    exchange_time: int
    is_late: bool
    written: int
    """Time of the record in nanoseconds since 1970, by this machine's clock."""

    account: BrokerAccount | None = None
    digest: str | None = None
    """Digest of the observation."""

    equity: float = 0.0
    is_decided: bool = False
    action: Any = None
    """Action of the policy; None if it was not asked."""

    orders: tuple[BrokerOrder, ...] = ()
    changes: list[tuple[str, bool]] = field(default_factory=list)
    """Assets removed or added after the row, and True if they are traded since."""

    @property
    def is_observed(self) -> bool:
        """True if the row's account and observation are recorded."""
        return self.account is not None and self.digest is not None

    def apply_decision(self, episode: LiveEpisode) -> None:
        """Repeat the action and the universe changes that followed the row."""
        if self.action is not None:
            episode.action = self.action
        self.apply_changes(episode)

    def apply_changes(self, episode: LiveEpisode) -> None:
        """Repeat the universe changes that followed the row."""
        for asset, is_traded in self.changes:
            episode.set_traded(asset, is_traded)


@dataclass(slots=True)
class RecoveredSession:
    """State of a session at the end of its journal."""

    is_new: bool = True
    last_row: RecordedRow | None = None
    pending: tuple[BrokerOrder, ...] = ()
    """Orders of the last decision."""

    unfinished: RecordedRow | None = None
    """Last row, if it was not decided on."""

    warnings: list[str] = field(default_factory=list)


def recorded_rows(
    records: Iterable[JournalRecord], assets: tuple[str, ...]
) -> Iterator[RecordedRow]:
    """Rows of a session, each with what followed it."""
    row: RecordedRow | None = None
    for record in records:
        if record.kind == "bar":
            if row is not None:
                yield row
            fields = record.fields
            row = RecordedRow(
                bar_from_fields(fields), fields["exchange_time"], fields["is_late"], record.time
            )
        elif row is not None:
            _add(row, record, assets)
    if row is not None:
        yield row


def recover(
    records: Iterable[JournalRecord],
    count: int,
    folder: SessionFolder,
    episode: LiveEpisode,
    tracker: OrderTracker,
    note_row: Callable[[RecordedRow], None],
    note_record: Callable[[str, Mapping[str, Any]], None],
) -> RecoveredSession:
    """Bring an episode and an order tracker to the end of the journal.

    Records are read one by one, so that a journal may be larger than memory.

    Args:
        records: records of the journal; without a `begun` record the session is new.
        count: number of records.
        folder: folder of the snapshot.
        episode: episode after its reset.
        tracker: empty order tracker.
        note_row: called with each row that was observed.
        note_record: called with kind and fields of each record, to continue the counts.

    Raises:
        JournalError: a replayed observation differs from the recorded one: other data or env.
    """
    records = iter(records)
    begun = next((record for record in records if record.kind == "begun"), None)
    if begun is None:
        return RecoveredSession()
    _check_beginning(begun, episode)
    recovered = RecoveredSession(is_new=False)
    state = _usable_snapshot(folder, count, recovered.warnings)
    snapshot_row = 0 if state is None else int(state["row"])
    tracked = _tracked(records, tracker, note_record, episode.assets)
    rows = recorded_rows(tracked, episode.assets)
    for number, row in enumerate(rows, 1):
        recovered.last_row = row
        if not row.is_observed:
            break
        note_row(row)
        if number > snapshot_row:
            _replay(row, episode)
            continue
        episode.skip(row.bar)
        if state is not None and number == snapshot_row:
            _load(state, row, episode, folder)
            row.apply_changes(episode)
    if episode.row < snapshot_row:
        raise _foreign_snapshot(folder)
    last = recovered.last_row
    if last is not None:
        recovered.pending = last.orders
        recovered.unfinished = None if last.is_decided else last
    return recovered


def _add(row: RecordedRow, record: JournalRecord, assets: tuple[str, ...]) -> None:
    fields = record.fields
    if record.kind == "account":
        row.account = account_from_fields(fields, assets)
    elif record.kind == "observed":
        row.digest, row.equity = fields["digest"], fields["equity"]
    elif record.kind == "decision":
        row.is_decided = True
        row.action = fields["action"]
        row.orders = tuple(order_from_fields(order) for order in fields["orders"])
    elif record.kind == "universe":
        row.changes.append((fields["asset"], fields["is_traded"]))


def _check_beginning(record: JournalRecord, episode: LiveEpisode) -> None:
    data, fields = episode.portfolio.data, record.fields
    pairs = (
        ("assets", list(fields["assets"]), list(episode.assets)),
        ("rows of history", fields["rows"], len(data)),
        ("digest of the data", fields["digest"][:12], data.digest[:12]),
        ("digest of the first observation", fields["observed"][:12], episode.observed.digest[:12]),
    )
    for name, expected, actual in pairs:
        if expected != actual:
            raise JournalError(
                f"the session began with other data or another env: {name} {actual}, the journal "
                f"has {expected}; pass what it began with, or choose another folder"
            )


def _tracked(
    records: Iterable[JournalRecord],
    tracker: OrderTracker,
    note_record: Callable[[str, Mapping[str, Any]], None],
    assets: tuple[str, ...],
) -> Iterator[JournalRecord]:
    """Pass records on, and replay them in the order tracker and the counts."""
    for record in records:
        note_record(record.kind, record.fields)
        if record.kind == "decision":
            for order in record.fields["orders"]:
                tracker.intend(order_from_fields(order), record.time)
        elif record.kind == "account":
            tracker.rebase(account_from_fields(record.fields, assets))
            tracker.confirm()
        else:
            tracker.replay(record.kind, record.fields)
        yield record


def _usable_snapshot(
    folder: SessionFolder, count: int, warnings: list[str]
) -> dict[str, Any] | None:
    """State of the last snapshot; None with a warning if it cannot be used."""
    if not folder.snapshot.exists():
        return None
    try:
        snapshot = read_snapshot(folder.snapshot)
    except JournalError as error:
        warnings.append(f"replayed from the start: {error}")
        return None
    if snapshot.number > count:
        # A power cut lost the end of the journal and not the snapshot.
        warnings.append("replayed from the start: the snapshot is newer than the journal")
        return None
    return snapshot.state


def _load(
    state: dict[str, Any], row: RecordedRow, episode: LiveEpisode, folder: SessionFolder
) -> None:
    try:
        episode.load_state_dict(state)
    except StateError as error:
        raise JournalError(
            f"the snapshot is of another env: {error}; pass the env that the session began with"
        ) from error
    if episode.observed.digest != row.digest:
        raise _foreign_snapshot(folder)


def _foreign_snapshot(folder: SessionFolder) -> JournalError:
    return JournalError(
        f"{folder.snapshot} does not belong to {folder.journal}; move the snapshot away to replay "
        f"all of the journal"
    )


def _replay(row: RecordedRow, episode: LiveEpisode) -> None:
    observed = episode.advance(row.bar, row.account)
    if observed.digest != row.digest:
        raise JournalError(
            f"replayed row {observed.row} has the digest {observed.digest[:12]}, the journal has "
            f"{str(row.digest)[:12]}; the env or the data of the policy has changed since"
        )
    row.apply_decision(episode)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Snapshot of an env, and its position in the journal."""

    state: dict[str, Any]
    number: int
    """Number of the first journal record after the state."""


def write_snapshot(path: str | os.PathLike[str], state: Mapping[str, Any], number: int) -> None:
    """Write a snapshot atomically; a crash leaves the old file.

    Args:
        path: the file.
        state: `state_dict()` of the env.
        number: number of the first journal record after it.

    Raises:
        ValueError: the state cannot be serialized.
        JournalError: the file cannot be written; the old one is unchanged.
    """
    text = to_text(dict(state), "state")
    head = json.dumps(
        {"format": SNAPSHOT_FORMAT, "number": number, "digest": _digest(number, text)}
    )
    try:
        atomic_write(Path(path), f"{head}\n{text}\n".encode("ascii"), fsync=True)
    except OSError as error:
        raise JournalError(f"snapshot cannot be written to {path}: {error}") from error


def check_serializable(state: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a snapshot can hold the state of an env."""
    to_text(dict(state), "the state of the env")


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot; nothing is imported.

    Classes in it, such as the config of an env, are the built-in kinds of sekai and those that
    the program has registered with `sekai.registry.register_kind`.

    Raises:
        JournalError: the file is missing, incomplete, altered or of another format.
    """
    try:
        head, text = _parts(Path(path))
        number = head["number"]
        if head["format"] != SNAPSHOT_FORMAT or type(number) is not int or number < 0:
            raise ValueError(f"expected the format {SNAPSHOT_FORMAT!r}, got {head['format']!r:.40}")
        if head["digest"] != _digest(number, text):
            raise ValueError("digest mismatch: the file is incomplete or was altered")
        state = from_text(text)
        if not isinstance(state, dict):
            raise ValueError(f"expected a dict as state, got {type(state).__name__}")
    except Exception as error:
        # Registered classes raise errors of their own.
        raise JournalError(f"{path} is not a usable snapshot: {error}") from error
    return Snapshot(state, number)


def _parts(path: Path) -> tuple[dict[str, Any], str]:
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_SNAPSHOT_BYTES + 1)
    if len(content) > MAX_SNAPSHOT_BYTES or content[-1:] != b"\n":
        raise ValueError(f"incomplete, or larger than {MAX_SNAPSHOT_BYTES} bytes")
    head, _, text = content[:-1].decode("ascii").partition("\n")
    header = parse_json(head)
    if not isinstance(header, dict):
        raise ValueError("the first line is not a header")
    return header, text


def _digest(number: int, text: str) -> str:
    return blake2b(f"{number} {text}".encode("ascii"), digest_size=16).hexdigest()
