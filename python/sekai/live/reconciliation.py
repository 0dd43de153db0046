"""Bring what a session believes and what its broker says to agreement."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sekai.live.accruals import accrued
from sekai.live.broker import Broker, BrokerAccount
from sekai.live.order_keeper import OrderKeeper
from sekai.live.order_records import report_fields
from sekai.live.orders import Order, OrderReport, OrderState
from sekai.live.retrying import retrying

__all__ = ["Difference", "Settlement", "reconcile", "settle"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a session and its broker disagree."""

    what: str
    """The asset, or `cash`."""

    expected: float
    found: float

    def __str__(self) -> str:
        return f"{self.what}: {self.expected!r} expected, the broker has {self.found!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of the orders that nobody knew about."""

    send_again: tuple[Order, ...] = ()
    """The broker never had them, and they are still good."""

    abandoned: tuple[Order, ...] = ()
    """The broker never had them, and the world has moved on."""

    missed: tuple[OrderReport, ...] = ()
    """What the broker had said and nobody had heard."""


def reconcile(
    expected: OrderKeeper, account: BrokerAccount, tolerance: float = 1e-9
) -> list[Difference]:
    """Where what all fills add up to is not what the broker says.

    What was paid for holding and borrowing is in no fill: the broker is believed about it.

    Args:
        expected: the fills since the broker was last believed (`OrderKeeper.rebase`).
        account: what the broker says.
        tolerance: what rounding may be, as a share of what is expected or of 1.
    """
    pairs = {
        asset: (expected.units.get(asset, 0.0), account.units.get(asset, 0.0))
        for asset in sorted({*expected.units, *account.units})
    }
    cash = expected.cash - (accrued(account) - expected.accrued)
    pairs["cash"] = (cash, account.cash)
    return [
        Difference(what, wanted, found)
        for what, (wanted, found) in pairs.items()
        if not abs(wanted - found) <= tolerance * max(1.0, abs(wanted))
    ]


async def settle(
    keeper: OrderKeeper,
    broker: Broker,
    journal_append: Callable[..., object],
    is_stale: Callable[[Order], bool],
    *,
    attempts: int = 5,
    rng: random.Random | None = None,
) -> Settlement:
    """Ask the broker about every unresolved order, and write down what it says.

    Nothing is sent: the caller sends `send_again`, under the same ids.

    Args:
        keeper: the orders, which takes in what was missed.
        broker: who is asked, and asked again if it does not answer.
        journal_append: called with the kind and fields of a record before the keeper is told.
        is_stale: whether an order that never arrived must not be sent any more.
        attempts: how often the broker is asked.
        rng: for the waits between attempts.

    Raises:
        BrokerError: it did not answer; nothing has changed.
    """
    orders = keeper.unresolved()
    if not orders:
        return Settlement()
    ids = [order.id for order in orders]
    known = await retrying(lambda: broker.known(ids), attempts, connect=broker.connect, rng=rng)
    missed: list[OrderReport] = []
    again: list[Order] = []
    abandoned: list[Order] = []
    for order in orders:
        if order.id in known:
            missed += _take_missed(keeper, known[order.id], journal_append)
        elif keeper[order.id].is_done:
            keeper.alerts.append(_forgotten(order))
        elif (reason := _given_up(keeper, order, is_stale)) is not None:
            journal_append("abandoned", id=order.id, reason=reason)
            keeper.abandon(order.id, reason)
            abandoned.append(order)
        else:
            again.append(order)
    keeper.confirm()
    return Settlement(send_again=tuple(again), abandoned=tuple(abandoned), missed=tuple(missed))


def _take_missed(
    keeper: OrderKeeper, state: OrderState, journal_append: Callable[..., Any]
) -> list[OrderReport]:
    kept = keeper[state.order.id]
    if not kept.is_sent:
        journal_append("sent", id=state.order.id)
        keeper.send(state.order.id)
    new = [report for report in state.reports if report.id not in kept.report_ids]
    for report in new:
        journal_append("report", **report_fields(report))
        keeper.take(report)
    return new


def _given_up(keeper: OrderKeeper, order: Order, is_stale: Callable[[Order], bool]) -> str | None:
    kept = keeper[order.id]
    if kept.report_ids:
        # To send it again could trade it twice: a broker that forgets is no broker to trust.
        keeper.alerts.append(_forgotten(order))
        return "the broker forgot it"
    return "it never arrived, and a newer row has come" if is_stale(order) else None


def _forgotten(order: Order) -> str:
    return f"the broker has no memory of {order.id}, about which it reported"
