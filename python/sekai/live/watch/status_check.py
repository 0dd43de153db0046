"""Whether a status holds what its fields promise: it comes from a file that anybody may write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, get_args

from sekai.live.status import LatencySummary, OrderLine, SessionStatus, State

__all__ = ["checked_status", "plain_status"]

KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,),
}  # fmt: skip
"""What may stand in a field, by how it is annotated."""

LARGEST = 1e300
"""Of what can be shown."""


def checked_status(text: str) -> SessionStatus:
    """The status in that text.

    Raises:
        ValueError: it is none, or holds something of another type, or what is no number.
    """
    status = SessionStatus.from_json(text)
    if status.state not in get_args(State):
        raise _wrong("state", status.state)
    for part in (status, status.feed, *status.orders, *status.latency.values()):
        _check_fields(part)
    _check_numbers("costs", status.costs)
    if not isinstance(status.positions, Mapping):
        raise _wrong("positions", status.positions)
    for asset, numbers in status.positions.items():
        _check_numbers(f"positions of {asset}", numbers)
    _check_row("equity_values", status.equity_values, (int, float))
    _check_row("equity_times", status.equity_times, (str,))
    _check_row("alerts", status.alerts, (str,))
    for summary in status.latency.values():
        _check_row("buckets", [one for bucket in summary.buckets for one in bucket], (int, float))
    return status


def plain_status(status: SessionStatus) -> dict[str, Any]:
    """A status ready for JSON; its long rows are not copied, because this is done all the time."""
    return {
        **{field.name: getattr(status, field.name) for field in fields(status)},
        "orders": [asdict(order) for order in status.orders],
        "latency": {name: asdict(one) for name, one in status.latency.items()},
        "feed": status.feed.to_dict(),
    }


def _check_fields(part: SessionStatus | OrderLine | LatencySummary | Any) -> None:
    for field in fields(part):
        value = getattr(part, field.name)
        kinds = KINDS.get(str(field.type))
        if kinds:
            _check_row(field.name, [value], kinds)


def _check_numbers(name: str, found: Any) -> None:
    if not isinstance(found, Mapping):
        raise _wrong(name, found)
    _check_row(name, found.values(), (int, float))


def _check_row(name: str, values: Iterable[Any], kinds: tuple[type, ...]) -> None:
    for value in values:
        if not isinstance(value, kinds):
            raise _wrong(name, value)
        # Whole numbers of any length can be written, and so can what is no number at all.
        if isinstance(value, (int, float)) and not abs(value) < LARGEST:
            raise _wrong(name, value if isinstance(value, float) else "a huge number")


def _wrong(name: str, value: object) -> ValueError:
    return ValueError(f"{name} holds {str(value)[:40]!r}")
