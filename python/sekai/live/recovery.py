"""Where a session that broke off goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sekai.data import Bar
from sekai.envs.account_report import AccountReport
from sekai.error import JournalError
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
    account: AccountReport | None = None
    digest: str | None = None
    """Of what was observed."""

    equity: float = 0.0

    is_decided: bool = False
    action: Any = None
    """What the policy decided; None if it was not asked."""

    orders: tuple[Order, ...] = ()


@dataclass(slots=True)
class Recovered:
    """Where a session stands."""

    is_new: bool = True
    last_time: int = 0
    """Of the exchange, of the last row."""

    row_time: int = 0
    """What the last row is stamped with, in nanoseconds since 1970."""

    equities: list[tuple[int, float]] = field(default_factory=list)
    """What the account was worth after each row, by the time of the row."""

    pending: tuple[Order, ...] = ()
    """Orders of the last decision."""

    unfinished: KeptRow | None = None
    """The last row, if it was not yet decided on."""

    warnings: list[str] = field(default_factory=list)


def kept_rows(records: Iterable[Record]) -> list[KeptRow]:
    """The rows of a session, with what became of each."""
    rows: list[KeptRow] = []
    for record in records:
        fields = record.fields
        if record.kind == "bar":
            rows.append(KeptRow(bar_from(fields), fields["exchange_time"], fields["is_late"]))
        elif record.kind == "account":
            rows[-1].account = told_account(fields)
        elif record.kind == "observed":
            rows[-1].digest = fields["digest"]
            rows[-1].equity = fields["equity"]
        elif record.kind == "decision":
            rows[-1].is_decided = True
            rows[-1].action = fields["action"]
            rows[-1].orders = tuple(order_from(one) for one in fields["orders"])
    return rows


def recover(
    records: list[Record], folder: SessionFolder, episode: LiveEpisode, keeper: OrderKeeper
) -> Recovered:
    """Bring an episode and the book of orders to where the journal ends.

    Args:
        records: of the journal; one without rows is new.
        folder: where the snapshot is.
        episode: at its beginning.
        keeper: with nothing in it.

    Raises:
        JournalError: the env does not come to what was observed then: other data, another env.
    """
    begun = next((record for record in records if record.kind == "begun"), None)
    if begun is None:
        return Recovered()
    _check_beginning(begun, episode)
    _keep_orders(records, keeper, episode.assets)
    rows = kept_rows(records)
    first, warnings = _from_snapshot(folder, episode, rows)
    for row in rows[first:]:
        if row.account is None or row.digest is None:
            break
        _replay(row, episode)
    found = Recovered(is_new=False, warnings=warnings)
    found.equities = [(bar_time(row.bar), row.equity) for row in rows if row.digest is not None]
    if rows:
        last = rows[-1]
        found.last_time = last.exchange_time
        found.row_time = bar_time(last.bar)
        found.pending = last.orders
        found.unfinished = None if last.is_decided else last
    return found


def _check_beginning(record: Record, episode: LiveEpisode) -> None:
    found = episode.observed.digest
    if record.fields["observed"] != found:
        raise JournalError(
            f"the session began with other data or another env: what it saw first has the digest "
            f"{record.fields['observed'][:12]}, what this env shows has {found[:12]}"
        )


def _keep_orders(records: list[Record], keeper: OrderKeeper, assets: tuple[str, ...]) -> None:
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


def _from_snapshot(
    folder: SessionFolder, episode: LiveEpisode, rows: list[KeptRow]
) -> tuple[int, list[str]]:
    """How many rows need no replay, and what was wrong with the snapshot if it was of no use."""
    if not folder.snapshot.exists():
        return 0, []
    try:
        state = read_snapshot(folder.snapshot).state
    except JournalError as error:
        return 0, [f"replayed from the start: {error}"]
    seen = int(state["row"])
    if seen > len(rows):
        return 0, ["replayed from the start: the snapshot knows more than the journal"]
    episode.load_state_dict(state, [row.bar for row in rows[:seen]])
    return seen, []


def _replay(row: KeptRow, episode: LiveEpisode) -> None:
    observed = episode.advance(row.bar, row.account)
    if observed.digest != row.digest:
        raise JournalError(
            f"row {observed.row} of the journal was observed as {str(row.digest)[:12]}, and is now "
            f"{observed.digest[:12]}: the env or the policy's data has changed since"
        )
    if row.action is not None:
        episode.action = row.action
