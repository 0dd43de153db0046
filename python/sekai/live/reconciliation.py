"""Reconciliation of expected and reported positions, cash and orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderState,
    OrderTracker,
    report_fields,
)

__all__ = ["AccountDifference", "Settlement", "reconcile", "settle"]


@dataclass(frozen=True, slots=True)
class AccountDifference:
    """Difference between the expected and the reported account."""

    name: str
    """Asset, or `cash`."""

    expected: float
    reported: float

    def __str__(self) -> str:
        return f"{self.name}: expected {self.expected!r}, the broker reports {self.reported!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Outcome of settling unresolved orders with the broker."""

    send_again: tuple[BrokerOrder, ...] = ()
    """Orders that the broker never received and that are still valid."""

    abandoned: tuple[BrokerOrder, ...] = ()
    """Orders that the broker never received and that are stale."""

    missed: tuple[ExecutionReport, ...] = ()
    """Execution reports that were not received before."""


def reconcile(
    tracker: OrderTracker, account: BrokerAccount, tolerance: float = 1e-9
) -> list[AccountDifference]:
    """Compare positions and cash expected from fills with the broker's account.

    Holding costs are in no fill; they are taken from the broker.

    Args:
        tracker: fills since `OrderTracker.rebase`.
        account: account reported by the broker.
        tolerance: allowed rounding difference, relative to max(1, expected).
    """
    pairs = {
        asset: (tracker.units.get(asset, 0.0), account.units.get(asset, 0.0))
        for asset in sorted({*tracker.units, *account.units})
    }
    cash = tracker.cash - (account.holding_costs - tracker.holding_costs)
    pairs["cash"] = (cash, account.cash)
    return [
        AccountDifference(name, expected, reported)
        for name, (expected, reported) in pairs.items()
        if not abs(expected - reported) <= tolerance * max(1.0, abs(expected))
    ]


async def settle(
    tracker: OrderTracker,
    broker: Broker,
    journal_append: Callable[..., object],
    is_stale: Callable[[BrokerOrder], bool],
) -> Settlement:
    """Ask the broker for the state of every unresolved order, and journal the result.

    Nothing is submitted: the caller submits `send_again` under the same ids.

    Args:
        tracker: orders of the session; missed reports are applied to it.
        broker: queried once; the caller retries.
        journal_append: called with kind and fields of a record before the tracker changes.
        is_stale: returns True for orders that must not be submitted any more.

    Raises:
        BrokerError: the broker did not answer; nothing has changed.
    """
    orders = tracker.unresolved()
    if not orders:
        return Settlement()
    known = await broker.known([order.id for order in orders])
    missed: list[ExecutionReport] = []
    again: list[BrokerOrder] = []
    abandoned: list[BrokerOrder] = []
    for order in orders:
        if order.id in known:
            missed += _apply_missed(tracker, known[order.id], journal_append)
        elif tracker[order.id].is_done:
            tracker.alerts.append(_forgotten(order))
        elif (reason := _reason_to_abandon(tracker, order, is_stale)) is not None:
            journal_append("abandoned", id=order.id, reason=reason)
            tracker.abandon(order.id, reason)
            abandoned.append(order)
        else:
            again.append(order)
    tracker.confirm()
    return Settlement(send_again=tuple(again), abandoned=tuple(abandoned), missed=tuple(missed))


def _apply_missed(
    tracker: OrderTracker, state: OrderState, journal_append: Callable[..., Any]
) -> list[ExecutionReport]:
    tracked = tracker[state.order.id]
    if not tracked.is_sent:
        journal_append("sent", id=state.order.id)
        tracker.send(state.order.id)
    new = [report for report in state.reports if report.id not in tracked.report_ids]
    for report in new:
        journal_append("report", **report_fields(report))
        tracker.apply(report)
    return new


def _reason_to_abandon(
    tracker: OrderTracker, order: BrokerOrder, is_stale: Callable[[BrokerOrder], bool]
) -> str | None:
    if tracker[order.id].report_ids:
        # Submitting it again could trade it twice.
        tracker.alerts.append(_forgotten(order))
        return "the broker no longer knows it"
    return "not received by the broker before a newer row" if is_stale(order) else None


def _forgotten(order: BrokerOrder) -> str:
    return f"the broker no longer knows order {order.id}, which it reported on"
