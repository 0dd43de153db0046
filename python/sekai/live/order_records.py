"""Orders and reports as plain fields, for journals and wires, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.live.broker import BrokerAccount
from sekai.live.orders import Order, OrderReport, OrderState

__all__ = [
    "account_fields",
    "account_from",
    "order_fields",
    "order_from",
    "report_fields",
    "report_from",
    "state_fields",
    "state_from",
]


def order_fields(order: Order) -> dict[str, Any]:
    """An order by name."""
    return {
        "id": order.id,
        "asset": order.asset,
        "units": order.units,
        "reference_price": order.reference_price,
    }


def order_from(fields: Mapping[str, Any]) -> Order:
    """What `order_fields` gave; other fields beside it do not matter."""
    return Order(
        id=str(fields["id"]),
        asset=str(fields["asset"]),
        units=float(fields["units"]),
        reference_price=float(fields["reference_price"]),
    )


def report_fields(report: OrderReport) -> dict[str, Any]:
    """A report by name, without when it arrived: that is another time for everybody."""
    return {
        "id": report.id,
        "order_id": report.order_id,
        "kind": report.kind,
        "units": report.units,
        "price": report.price,
        "cost": report.cost,
        "asset": report.asset,
        "reason": report.reason,
        "broker_time": report.broker_time,
    }


def report_from(fields: Mapping[str, Any]) -> OrderReport:
    """What `report_fields` gave; other fields beside it do not matter."""
    return OrderReport(
        id=str(fields["id"]),
        order_id=str(fields["order_id"]),
        kind=fields["kind"],
        units=float(fields["units"]),
        price=float(fields["price"]),
        cost=float(fields["cost"]),
        asset=str(fields["asset"]),
        reason=str(fields["reason"]),
        broker_time=int(fields["broker_time"]),
    )


def state_fields(state: OrderState) -> dict[str, Any]:
    """All that a broker knows of an order, by name."""
    return {
        "order": order_fields(state.order),
        "filled": state.filled,
        "is_open": state.is_open,
        "reports": [report_fields(report) for report in state.reports],
    }


def state_from(fields: Mapping[str, Any]) -> OrderState:
    """What `state_fields` gave."""
    return OrderState(
        order=order_from(fields["order"]),
        filled=float(fields["filled"]),
        is_open=bool(fields["is_open"]),
        reports=tuple(report_from(report) for report in fields["reports"]),
    )


def account_fields(account: BrokerAccount) -> dict[str, Any]:
    """An account by name."""
    return {
        "cash": account.cash,
        "units": dict(account.units),
        "open_units": dict(account.open_units),
        "costs": dict(account.costs),
        "time": account.time,
    }


def account_from(fields: Mapping[str, Any]) -> BrokerAccount:
    """What `account_fields` gave."""
    return BrokerAccount(
        cash=float(fields["cash"]),
        units=dict(fields["units"]),
        open_units=dict(fields["open_units"]),
        costs=dict(fields["costs"]),
        time=int(fields["time"]),
    )
