"""Every fill of a session, a line each: told by its journal, so that a crash changes nothing."""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sekai.core.closing import Closing
from sekai.error import JournalError
from sekai.live.journal_reading import read_journal
from sekai.live.journal_records import Record
from sekai.live.whole_file import replaced

__all__ = ["Trade", "TradeLog", "trades_of"]

REMEMBERED = 10_000
"""Orders whose asset and times are known: a session that runs for years must not grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """A fill, and how its order came to it. Times are nanoseconds since 1970, by our clock."""

    time: int
    """When the broker says it was; when it was told if it does not say."""

    order_id: str
    report_id: str
    asset: str
    """Empty if the order is none of this session."""

    units: float
    price: float
    cost: float
    decided: int | None
    sent: int | None
    """None if the process died before it could write that down."""

    filled: int
    """When the report of it was written down."""

    def to_json(self) -> str:
        """As a line."""
        # `asdict` would copy every number: ten times as long.
        words = {name: getattr(self, name) for name in _TRADE}
        for name in ("units", "price", "cost"):
            # JSON has no word for what is not finite.
            words[name] = words[name] if math.isfinite(words[name]) else None
        return json.dumps(words, allow_nan=False)


_TRADE = tuple(one.name for one in fields(Trade))


def trades_of(journal: str | os.PathLike[str] | Iterable[Record]) -> list[Trade]:
    """Every fill that a journal tells of, in order; a report that came twice counts once."""
    is_path = isinstance(journal, (str, os.PathLike))
    return list(_Trades().of(read_journal(journal) if is_path else journal))  # type: ignore[arg-type]


class TradeLog(Closing):
    """The fills of a session in a file, written as its records are.

    It holds nothing that the journal does not: after a crash it is written anew from there.
    """

    def __init__(self, path: str | os.PathLike[str], records: Iterable[Record] = ()) -> None:
        """Write the fills of `records`, the journal so far, in place of what is there."""
        self.path = Path(path)
        self._trades = _Trades()
        lines = (f"{trade.to_json()}\n".encode("ascii") for trade in self._trades.of(records))
        try:
            # One by one: a session of years has more of them than fit into memory.
            replaced(self.path, lines, wait=False)
            self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise JournalError(f"trades cannot be written to {self.path}: {error}") from error

    def see(self, record: Record) -> Trade | None:
        """Take in the next record of the journal, and write the fill that it tells of, if any.

        Raises:
            JournalError: it could not be written; the journal has it all the same.
        """
        trade = self._trades.see(record)
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
            raise JournalError(f"{written} of {len(line)} bytes could be written to {self.path}")
        return trade

    def close(self) -> None:
        """Write no more. Closing twice is no error."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


@dataclass(slots=True)
class _Known:
    """What is known of an order."""

    asset: str
    decided: int | None
    sent: int | None = None
    reports: set[str] = field(default_factory=set)


class _Trades:
    """Finds the fills among records."""

    def __init__(self) -> None:
        self._orders: OrderedDict[str, _Known] = OrderedDict()

    def of(self, records: Iterable[Record]) -> Iterator[Trade]:
        return (trade for trade in map(self.see, records) if trade is not None)

    def see(self, record: Record) -> Trade | None:
        try:
            return self._see(record)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise JournalError(
                f"record {record.number} is to tell of a {record.kind}, and lacks or mistakes "
                f"something: {error!r}"
            ) from error

    def _see(self, record: Record) -> Trade | None:
        if record.kind == "decision":
            for order in record.fields["orders"]:
                self._know(str(order["id"]), _Known(str(order["asset"]), record.time))
        elif record.kind == "sent":
            known = self._orders.get(str(record.fields["id"]))
            if known is not None and known.sent is None:
                known.sent = record.time
        elif record.kind == "report" and record.fields["kind"] == "filled":
            return self._fill(record.time, record.fields)
        return None

    def _know(self, order_id: str, known: _Known) -> _Known:
        # An order that is journaled again is the same order.
        found = self._orders.setdefault(order_id, known)
        if len(self._orders) > REMEMBERED:
            self._orders.popitem(last=False)
        return found

    def _fill(self, now: int, report: Mapping[str, Any]) -> Trade | None:
        order_id, report_id = str(report["order_id"]), str(report["id"])
        known = self._orders.get(order_id) or self._know(order_id, _Known("", None))
        if report_id in known.reports:
            return None
        known.reports.add(report_id)
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
