"""What a session writes into its journal, and how it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.data import Bar
from sekai.envs.account_report import AccountReport
from sekai.live.events import BarEvent

__all__ = [
    "bar_fields",
    "bar_of",
    "told_account",
    "told_fields",
]


def bar_fields(event: BarEvent) -> dict[str, Any]:
    """A row as it came."""
    bar = event.bar
    masks = {name: None if mask is None else np.asarray(mask) for name, mask in bar.masks().items()}
    return {
        "row_time": str(np.datetime64(bar.time, "ns")),
        "values": np.asarray(bar.values, np.float64),
        **masks,
        "market": dict(bar.market),
        "exchange_time": event.exchange_time,
        "receive_time": event.receive_time,
        "sequence": event.sequence,
        "is_late": event.is_late,
    }


def bar_of(fields: Mapping[str, Any]) -> Bar:
    """The row of such a record."""
    masks = {name: fields[name] for name in ("listed", "quoted", "tradable")}
    return Bar(
        np.datetime64(fields["row_time"], "ns"), fields["values"], market=fields["market"], **masks
    )


def told_fields(report: AccountReport) -> dict[str, Any]:
    """What the env was told of the account."""
    return {
        "cash": report.cash,
        "units": dict(report.units),
        "open_units": dict(report.open_units),
        "costs": dict(report.costs),
        "traded": report.traded,
    }


def told_account(fields: Mapping[str, Any]) -> AccountReport:
    """What `told_fields` gave."""
    return AccountReport(**fields)
