"""A broker without money: orders are filled in the rows of a feed, at the rules of an account."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from sekai.core.env import Env
from sekai.data import Bar
from sekai.envs.portfolio import Portfolio
from sekai.error import BrokerError, JournalError
from sekai.live.bar_records import bar_from, bar_time
from sekai.live.broker import Broker, BrokerAccount
from sekai.live.order_records import order_from
from sekai.live.orders import Order, OrderReport, OrderState
from sekai.live.paper_account import PaperAccount
from sekai.live.paper_faults import PaperFaults
from sekai.live.paper_ledger import PaperLedger, holdings, said
from sekai.live.paper_orders import PaperOrders

__all__ = ["PaperBroker"]


class PaperBroker(Broker):
    """Fills orders in the next row that it sees, at the rules and costs of a `PaperAccount`.

    Orders in one asset are traded together, and what is traded is shared out to them, first come
    first served. With `Execution(unfilled="carry")` the rest of an order stands until it is
    filled, cancelled, or an order in the same asset arrives; otherwise it expires.

    A row that is not after the last one it saw is no news to it, so that rows may be shown again.
    """

    def __init__(
        self,
        account: PaperAccount,
        ledger: Path | None = None,
        faults: PaperFaults | None = None,
        *,
        delay: int = 0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin, or go on where the ledger ends.

        Args:
            account: a new one; what a ledger tells is brought about in it.
            ledger: the file where everything it takes and sees, and what comes of it, is written
                before it answers; without one, all is lost with the process.
            faults: what goes wrong on purpose.
            delay: rows that an order waits beyond the next one; that of the account must be 0,
                since an account cannot give back what it was told.
            clock: nanoseconds since 1970 in UTC.

        Raises:
            JournalError: the ledger is damaged, in use, or that of another account.
        """
        if account.execution.delay:
            raise ValueError(
                f"an account without a delay was wanted, found one of {account.execution.delay} "
                f"rows: use PaperBroker.like(env), or PaperBroker(..., delay=...)"
            )
        self._faults = faults or PaperFaults()
        self._clock = clock
        self._account = account
        self._orders = PaperOrders(account, self._faults, delay)
        self.last_time: int | None = None
        """What the last row it saw is stamped with, in nanoseconds since 1970 in UTC."""

        self._unsaid: deque[OrderReport] = deque()
        self._repeated: list[OrderReport] = []
        self._said = self._asked = self._calls = 0
        self._is_connected = True
        self._failure: BaseException | None = None
        self._ledger = None if ledger is None else PaperLedger(ledger, self._opening(delay))
        if self._ledger is not None:
            self._rebuild(self._ledger)

    @classmethod
    def like(
        cls,
        env: Env[Any, Any],
        ledger: Path | None = None,
        faults: PaperFaults | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> PaperBroker:
        """A broker on the rules and the rows of a `Portfolio`, wrapped or not, delay included."""
        portfolio = env.unwrapped
        if not isinstance(portfolio, Portfolio):
            raise TypeError(f"a Portfolio was wanted, found {portfolio!r}")
        account, delay = PaperAccount.like(env, delay=0), portfolio.config.execution.delay
        return cls(account, ledger, faults, delay=delay, clock=clock)

    async def connect(self) -> None:
        """Begin, or begin again after the connection was lost."""
        self._is_connected = True

    async def submit(self, order: Order) -> None:
        """Take an order; it is traded in the next row at the earliest."""
        breaks = await self._begin_call()
        number, is_new, now = len(self._orders), order.id not in self._orders, self._clock()
        reports = self._orders.take(order, now)
        if is_new and self._ledger is not None:
            self._write(self._ledger.took, order, now, reports)
        self._unsaid.extend(reports)
        if is_new and self._faults.happens("lose_acknowledgement", number):
            raise BrokerError(f"no answer about the order {order.id}: ask whether it is known")
        self._end_call(breaks)

    async def cancel(self, order_id: str) -> None:
        """Fill no more of an order."""
        breaks = await self._begin_call()
        now = self._clock()
        if self._orders.is_open(order_id):
            reports = self._orders.cancel(order_id, now)
            if self._ledger is not None:
                self._write(self._ledger.dropped, order_id, now, reports)
            self._unsaid.extend(reports)
        self._end_call(breaks)

    async def account(self) -> BrokerAccount:
        """What the account has after the last row."""
        breaks = await self._begin_call()
        found = BrokerAccount(
            cash=self._account.cash,
            units=dict(self._account.units),
            open_units=self._orders.open_units(),
            costs=dict(self._account.costs),
            carried_units=dict(self._account.open_units),
            row_costs=dict(self._account.report().costs),
            row_traded=self._account.traded,
            time=self._clock(),
        )
        self._end_call(breaks)
        return found

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        """All about those of these orders that it ever took."""
        breaks = await self._begin_call()
        states = {order_id: self._orders.state(order_id) for order_id in order_ids}
        self._end_call(breaks)
        return {order_id: state for order_id, state in states.items() if state is not None}

    async def reports(self) -> list[OrderReport]:
        """What was said since this was last asked; after a restart, what was said last again."""
        breaks = await self._begin_call()
        if not self._unsaid and not self._repeated:
            self._end_call(breaks)
            return []
        if self._unsaid and self._ledger is not None:
            self._ledger.handed_out(len(self._unsaid))
        batch = self._hand_out(len(self._unsaid))
        self._end_call(breaks)
        return batch

    async def see(self, bar: Bar) -> None:
        """Trade what waits in a row, unless the row was seen before."""
        breaks = await self._begin_call()
        stamp = bar_time(bar)
        if self.last_time is None or stamp > self.last_time:
            now = self._clock()
            reports = self._orders.see(bar, now)
            self.last_time = stamp
            self._unsaid.extend(reports)
            if self._ledger is not None:
                self._write(self._ledger.saw, bar, now, self._account, reports)
        self._end_call(breaks)

    def hold(self) -> None:
        """Write rows when `write_held` is called, an order is taken or one is cancelled."""
        if self._ledger is not None:
            self._ledger.hold()

    def write_held(self) -> None:
        """Write the rows that were seen since `hold`."""
        if self._ledger is not None:
            self._write(self._ledger.write_held)

    async def close(self) -> None:
        """Let go of the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    async def _begin_call(self) -> bool:
        """Go wrong before anything is done, if that is due; whether to go wrong after it."""
        call, self._calls = self._calls, self._calls + 1
        if wait := self._faults.seconds_late(call):
            await asyncio.sleep(wait)
        if self._failure is not None:
            raise JournalError(
                f"this broker knows more than its ledger, and stopped: {self._failure}. Begin "
                f"another one from the ledger"
            ) from self._failure
        if not self._is_connected:
            raise BrokerError("the connection to the paper broker is lost: connect() first")
        breaks = self._faults.break_in(call)
        if breaks == "before":
            self._lose_connection()
        return breaks == "after"

    def _end_call(self, breaks: bool) -> None:
        if breaks:
            self._lose_connection()

    def _lose_connection(self) -> NoReturn:
        self._is_connected = False
        raise BrokerError("the connection to the paper broker was lost before it answered")

    def _write(self, write: Callable[..., None], *facts: Any) -> None:
        """Write to the ledger; what could not be written must never be answered."""
        try:
            write(*facts)
        except BaseException as error:
            # Also when interrupted: it was done before it was written.
            self._failure = error
            raise

    def _hand_out(self, count: int) -> list[OrderReport]:
        new = [self._unsaid.popleft() for _ in range(count)]
        batch = self._faults.shuffled([*self._repeated, *new], self._asked)
        self._repeated = [
            report
            for number, report in enumerate(new, self._said)
            if self._faults.happens("duplicate_report", number)
        ]
        self._said += count
        self._asked += 1
        return batch

    def _opening(self, delay: int) -> dict[str, Any]:
        account = self._account
        return {
            **holdings(account),
            "assets": list(account.assets),
            "execution": asdict(account.execution),
            "delay": delay,
            "faults": self._faults.to_dict(),
        }

    def _rebuild(self, ledger: PaperLedger) -> None:
        """Do again what the ledger tells, and see that it gives what the ledger says it gave."""
        last: list[OrderReport] = []
        for record in ledger.past():
            for count in record.fields["sent"]:
                last = self._hand_out(count)
            try:
                reports = self._do_again(record.kind, record.fields)
            except ValueError as error:
                raise ledger.cannot_be(record, f"is refused: {error}") from error
            if record.kind == "bar":
                self.last_time = record.fields["time"]
                for name, found in holdings(self._account).items():
                    ledger.check(record, name, found)
            ledger.check(record, "reports", said(reports))
            self._unsaid.extend(reports)
        # Whoever asked last may have died before it was written down.
        self._repeated = last

    def _do_again(self, kind: str, fields: Mapping[str, Any]) -> list[OrderReport]:
        now = fields["broker_time"]
        if kind == "bar":
            return self._orders.see(bar_from(fields), now)
        if kind == "order":
            return self._orders.take(order_from(fields), now)
        return self._orders.cancel(fields["id"], now)
