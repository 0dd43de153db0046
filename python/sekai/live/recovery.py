"""Where a session that broke off goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sekai.data import Bar
from sekai.envs.account_report import AccountReport
from sekai.error import JournalError, StateError
from sekai.live.bar_records import bar_from, bar_time
from sekai.live.broker import BrokerAccount
from sekai.live.journal import Record
from sekai.live.live_episode import LiveEpisode
from sekai.live.order_keeper import OrderKeeper
from sekai.live.order_records import order_from
from sekai.live.orders import Order
from sekai.live.session_folder import SessionFolder
from sekai.live.session_records import told_account
from sekai.live.snapshot_file import read_snapshot

__all__ = ["KeptRow", "Recovered", "kept_rows", "recover"]


@dataclass(slots=True)
class KeptRow:
    """What the journal has of one row."""

    bar: Bar
    exchange_time: int
    is_late: bool
    written: int
    """When it was written down, in nanoseconds since 1970 by this machine's clock."""

    account: AccountReport | None = None
    digest: str | None = None
    """Of what was observed."""

    equity: float = 0.0

    is_decided: bool = False
    action: Any = None
    """What the policy decided; None if it was not asked."""

    orders: tuple[Order, ...] = ()
    changes: list[tuple[str, bool]] = field(default_factory=list)
    """Assets that were taken out or let in again after it, and whether they are traded."""

    def change(self, episode: LiveEpisode) -> None:
        """Take those out and let those in that were after it."""
        for asset, is_traded in self.changes:
            episode.set_traded(asset, is_traded)


@dataclass(slots=True)
class Recovered:
    """Where a session stands."""

    is_new: bool = True
    last_row: KeptRow | None = None
    pending: tuple[Order, ...] = ()
    """Orders of the last decision."""

    unfinished: KeptRow | None = None
    """The last row, if it was not yet decided on."""

    warnings: list[str] = field(default_factory=list)


def kept_rows(records: Iterable[Record]) -> Iterator[KeptRow]:
    """The rows of a session one by one, with what became of each."""
    row: KeptRow | None = None
    for record in records:
        if record.kind == "bar":
            if row is not None:
                yield row
            row = _begun_row(record)
        elif row is not None:
            _add(row, record)
    if row is not None:
        yield row


def recover(
    records: Iterable[Record],
    count: int,
    folder: SessionFolder,
    episode: LiveEpisode,
    keeper: OrderKeeper,
    note_equity: Callable[[int, float], None],
) -> Recovered:
    """Bring an episode and the book of orders to where the journal ends.

    Records are taken in one by one, so that a journal may be larger than the memory.

    Args:
        records: of the journal; one without a beginning is new.
        count: how many there are.
        folder: where the snapshot is.
        episode: at its beginning.
        keeper: with nothing in it.
        note_equity: told what the account was worth after each row, by the time of the row.

    Raises:
        JournalError: the env does not come to what was observed then: other data, another env.
    """
    records = iter(records)
    begun = next((record for record in records if record.kind == "begun"), None)
    if begun is None:
        return Recovered()
    _check_beginning(begun, episode)
    found = Recovered(is_new=False)
    state = _snapshot(folder, count, found.warnings)
    seen = 0 if state is None else int(state["row"])
    for number, row in enumerate(kept_rows(_keeping(records, keeper, episode.assets)), 1):
        found.last_row = row
        if row.account is None or row.digest is None:
            break
        note_equity(bar_time(row.bar), row.equity)
        if number > seen:
            _replay(row, episode)
            continue
        episode.pass_over(row.bar)
        if state is not None and number == seen:
            _load(state, row, episode, folder)
            row.change(episode)
    if episode.row < seen:
        raise _of_another_session(folder)
    last = found.last_row
    if last is not None:
        found.pending = last.orders
        found.unfinished = None if last.is_decided else last
    return found


def _begun_row(record: Record) -> KeptRow:
    fields = record.fields
    return KeptRow(bar_from(fields), fields["exchange_time"], fields["is_late"], record.time)


def _add(row: KeptRow, record: Record) -> None:
    fields = record.fields
    if record.kind == "account":
        row.account = told_account(fields)
    elif record.kind == "observed":
        row.digest, row.equity = fields["digest"], fields["equity"]
    elif record.kind == "decision":
        row.is_decided = True
        row.action = fields["action"]
        row.orders = tuple(order_from(one) for one in fields["orders"])
    elif record.kind == "universe":
        row.changes.append((fields["asset"], fields["is_traded"]))


def _check_beginning(record: Record, episode: LiveEpisode) -> None:
    data, told = episode.portfolio.data, record.fields
    pairs = (
        ("assets", list(told["assets"]), list(episode.assets)),
        ("a history of rows", told["rows"], len(data)),
        ("data with the digest", told["digest"][:12], data.digest[:12]),
        ("a first sight with the digest", told["observed"][:12], episode.observed.digest[:12]),
    )
    for what, then, now in pairs:
        if then != now:
            raise JournalError(
                f"the session began with other data or another env: {what} {then} then, {now} now. "
                f"Give what it began with, or another folder"
            )


def _keeping(
    records: Iterable[Record], keeper: OrderKeeper, assets: tuple[str, ...]
) -> Iterator[Record]:
    """The same records, of which the book of orders takes note."""
    for record in records:
        if record.kind == "decision":
            for one in record.fields["orders"]:
                keeper.intend(order_from(one), record.time)
        elif record.kind == "account":
            held = zip(assets, record.fields["units"].tolist(), strict=True)
            keeper.rebase(BrokerAccount(cash=record.fields["cash"], units=dict(held)))
            keeper.confirm()
        else:
            keeper.read([record])
        yield record


def _snapshot(folder: SessionFolder, count: int, warnings: list[str]) -> dict[str, Any] | None:
    """The state that was saved last, if it is of use; if it is not, a warning says why."""
    if not folder.snapshot.exists():
        return None
    try:
        found = read_snapshot(folder.snapshot)
    except JournalError as error:
        warnings.append(f"replayed from the start: {error}")
        return None
    if found.number > count:
        # The disk had it before the power was cut, and the end of the journal not yet.
        warnings.append("replayed from the start: the snapshot knows more than the journal")
        return None
    return found.state


def _load(state: dict[str, Any], row: KeptRow, episode: LiveEpisode, folder: SessionFolder) -> None:
    try:
        episode.load_state_dict(state)
    except StateError as error:
        raise JournalError(
            f"the session was of another env: {error}. Give the env it began with"
        ) from error
    if episode.observed.digest != row.digest:
        raise _of_another_session(folder)


def _of_another_session(folder: SessionFolder) -> JournalError:
    return JournalError(
        f"{folder.snapshot} is not of the session that {folder.journal} tells of: move it away, "
        f"and all of the journal is replayed"
    )


def _replay(row: KeptRow, episode: LiveEpisode) -> None:
    observed = episode.advance(row.bar, row.account)
    if observed.digest != row.digest:
        raise JournalError(
            f"row {observed.row} of the journal was observed as {str(row.digest)[:12]}, and is now "
            f"{observed.digest[:12]}: the env or the policy's data has changed since"
        )
    if row.action is not None:
        episode.action = row.action
    row.change(episode)
