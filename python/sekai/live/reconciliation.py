"""Settlement of unresolved orders with the broker, after a crash or a lost connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sekai.live.broker import Broker
from sekai.live.orders import (
    FILL_TOLERANCE,
    BrokerOrder,
    ExecutionReport,
    OrderState,
    OrderTracker,
    report_fields,
)

__all__ = ["Settlement", "apply_state", "settle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Outcome of settling unresolved orders with the broker."""

    send_again: tuple[BrokerOrder, ...] = ()
    """Orders that the broker never received and that are still valid."""

    denied: tuple[BrokerOrder, ...] = ()
    """Orders that the broker never received and that are stale."""

    missed: tuple[ExecutionReport, ...] = ()
    """Execution reports that were not received before."""


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
    denied: list[BrokerOrder] = []
    for order in orders:
        if order.id in known:
            missed += apply_state(tracker, known[order.id], journal_append)
        elif tracker[order.id].is_done:
            tracker.alerts.append(_forgotten(order))
        elif (reason := _reason_to_deny(tracker, order, is_stale)) is not None:
            if tracker[order.id].is_sent:
                tracker.alerts.append(_forgotten(order))
            journal_append("denied", id=order.id, reason=reason)
            tracker.deny(order.id, reason)
            denied.append(order)
        else:
            again.append(order)
    tracker.confirm()
    return Settlement(send_again=tuple(again), denied=tuple(denied), missed=tuple(missed))


def apply_state(
    tracker: OrderTracker, state: OrderState, journal_append: Callable[..., Any]
) -> list[ExecutionReport]:
    """Apply the broker's state of an order; return the reports that were missed.

    A broker that knows another order under the id has not received this one: it is an alert, and
    the order ends.
    """
    tracked = tracker[state.order.id]
    if not _is_same_order(state.order, tracked.order):
        reason = f"the broker has another order under this id: {state.order}"
        tracker.alerts.append(f"order {tracked.order.id} was not executed: {reason}")
        journal_append("denied", id=tracked.order.id, reason=reason)
        tracker.deny(tracked.order.id, reason)
        return []
    if not tracked.is_sent:
        journal_append("sent", id=state.order.id)
        tracker.send(state.order.id)
    new = [report for report in state.reports if report.id not in tracked.report_ids]
    for report in new:
        journal_append("report", **report_fields(report))
        tracker.apply(report)
    tracker.resolve(state)
    return new


def _is_same_order(known: BrokerOrder, own: BrokerOrder) -> bool:
    """Return True unless a broker's order differs in asset or size; prices may be rounded."""
    difference = abs(known.units - own.units)
    return known.asset == own.asset and difference <= FILL_TOLERANCE * abs(own.units)


def _reason_to_deny(
    tracker: OrderTracker, order: BrokerOrder, is_stale: Callable[[BrokerOrder], bool]
) -> str | None:
    if tracker[order.id].report_ids:
        # Submitting it again could trade it twice.
        return "the broker no longer knows it"
    return "not received by the broker before a newer row" if is_stale(order) else None


def _forgotten(order: BrokerOrder) -> str:
    return f"order {order.id} is unknown to the broker, which had acknowledged it"
