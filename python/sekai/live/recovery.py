"""Recovery of an interrupted session: its newest snapshot, and replay of the journal after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sekai.data import Bar
from sekai.error import JournalError, StateError
from sekai.live.account import BrokerAccount
from sekai.live.clock import ClockReading
from sekai.live.episode import LiveEpisode
from sekai.live.events import bar_from_fields
from sekai.live.journal import JournalRecord
from sekai.live.journal.session import SessionJournal, account_from_fields
from sekai.live.orders import BrokerOrder, OrderTracker, order_from_fields
from sekai.live.snapshot import Snapshot, StatefulPart

__all__ = ["RecordedRow", "RecoveredSession", "recorded_rows", "recover"]


@dataclass(slots=True)
class RecordedRow:
    """Row of a session as recorded in the journal."""

    bar: Bar
    exchange_time: int
    is_late: bool
    written: int
    """Time of the record in nanoseconds since 1970, by this machine's clock."""

    reading: ClockReading
    """Clocks when the row was journaled."""

    account: BrokerAccount | None = None
    digest: str | None = None
    """Digest of the observation."""

    equity: float = 0.0
    is_decided: bool = False
    action: Any = None
    """Action of the policy; None if it was not asked."""

    policy_state: Any = None
    """State of a recurrent policy after the action."""

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
            episode.action, episode.policy_state = self.action, self.policy_state
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
    records: Iterable[JournalRecord], assets: tuple[str, ...], row: RecordedRow | None = None
) -> Iterator[RecordedRow]:
    """Rows of a session, each with what followed it.

    Args:
        records: records of the journal.
        assets: names of the assets.
        row: row before the first record, if there is one; it is the first of the rows.
    """
    for record in records:
        if record.kind == "bar":
            if row is not None:
                yield row
            fields = record.fields
            row = RecordedRow(
                bar_from_fields(fields),
                fields["exchange_time"],
                fields["is_late"],
                record.time,
                ClockReading(record.time, *fields["boot"]),
            )
        elif row is not None:
            _add(row, record, assets)
    if row is not None:
        yield row


def recover(
    journal: SessionJournal,
    episode: LiveEpisode,
    tracker: OrderTracker,
    parts: Mapping[str, StatefulPart],
    note_row: Callable[[RecordedRow], None],
    note_record: Callable[[str, Mapping[str, Any]], None],
) -> RecoveredSession:
    """Bring all parts of a session to the end of its journal.

    The parts are loaded from the newest usable snapshot, and the records after it are replayed one
    by one: the cost does not depend on the length of the session. Without a snapshot all records
    are replayed.

    Args:
        journal: journal of the session; without a `begun` record the session is new.
        episode: episode after its reset.
        tracker: empty order tracker.
        parts: parts by name as in `SessionJournal.save_snapshot`, the episode and the tracker among
            them.
        note_row: called with each observed row after the snapshot.
        note_record: called with kind and fields of each record after the snapshot, to continue the
            counts.

    Raises:
        JournalError: a replayed observation differs from the recorded one, or the snapshot is of
            another env: other data or env.
    """
    records = journal.replay()
    recovered = RecoveredSession(warnings=list(journal.warnings))
    first: RecordedRow | None = None
    if journal.snapshot is None:
        begun = next((record.fields for record in records if record.kind == "begun"), None)
        if begun is None:
            return recovered
        _check_beginning(begun, episode)
    else:
        _check_beginning(journal.begun, episode)
        _load(journal.snapshot, parts)
        first = _first_row(journal.last_row, episode)
    recovered.is_new = False
    tracked = _tracked(records, tracker, note_record, episode.assets)
    for row in recorded_rows(tracked, episode.assets, first):
        recovered.last_row = row
        if not row.is_observed:
            break
        if row is first:
            # Its observation is in the snapshot; decisions and changes may have followed.
            row.apply_decision(episode)
            continue
        note_row(row)
        _replay(row, episode)
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
        row.action, row.policy_state = fields["action"], fields.get("policy_state")
        row.orders = tuple(order_from_fields(order) for order in fields["orders"])
    elif record.kind == "universe":
        row.changes.append((fields["asset"], fields["is_traded"]))


def _check_beginning(fields: Mapping[str, Any], episode: LiveEpisode) -> None:
    data = episode.portfolio.data
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
            tracker.confirm()
        else:
            tracker.replay(record.kind, record.fields)
        yield record


def _load(snapshot: Snapshot, parts: Mapping[str, StatefulPart]) -> None:
    missing = sorted(parts.keys() - snapshot.parts.keys())
    if missing:
        raise JournalError(
            f"the snapshot has no state of {', '.join(missing)}: another version wrote it; "
            f"move the snapshots away to replay all of the journal"
        )
    name = ""
    try:
        for name, part in parts.items():
            part.load_state_dict(snapshot.parts[name])
    except (StateError, ValueError, TypeError, LookupError) as error:
        raise JournalError(
            f"the snapshot is of another env: state of the {name}: {error}; pass the env that the "
            f"session began with"
        ) from error


def _first_row(records: Iterable[JournalRecord], episode: LiveEpisode) -> RecordedRow | None:
    """Last row before the snapshot; None if there was none."""
    row = next(recorded_rows(records, episode.assets), None)
    if row is not None and row.digest != episode.observed.digest:
        raise JournalError(
            f"the snapshot has the observation {episode.observed.digest[:12]} after row "
            f"{episode.row}, the journal has {str(row.digest)[:12]}; move the snapshots away to "
            f"replay all of the journal"
        )
    return row


def _replay(row: RecordedRow, episode: LiveEpisode) -> None:
    observed = episode.advance(row.bar, row.account)
    if observed.digest != row.digest:
        raise JournalError(
            f"replayed row {observed.row} has the digest {observed.digest[:12]}, the journal has "
            f"{str(row.digest)[:12]}; the env or the data of the policy has changed since"
        )
    row.apply_decision(episode)
