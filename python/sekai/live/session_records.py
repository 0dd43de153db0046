"""What a session writes into its journal beside orders, and how it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.envs.account_report import AccountReport
from sekai.live.bar_records import bar_fields
from sekai.live.events import BarEvent
from sekai.live.live_episode import Observed

__all__ = ["observed_fields", "row_fields", "told_account", "told_fields"]


def row_fields(event: BarEvent) -> dict[str, Any]:
    """A row, and how it came."""
    return {
        **bar_fields(event.bar),
        "exchange_time": event.exchange_time,
        "receive_time": event.receive_time,
        "sequence": event.sequence,
        "is_late": event.is_late,
    }


def told_fields(report: AccountReport) -> dict[str, Any]:
    """What the env was told of the account."""
    return {
        "cash": report.cash,
        "units": report.units,
        "open_units": report.open_units,
        "costs": dict(report.costs),
        "traded": report.traded,
    }


def observed_fields(observed: Observed) -> dict[str, Any]:
    """What a row led to, without what was shown: its digest is enough to know it again."""
    return {
        "row": observed.row,
        "digest": observed.digest,
        "reward": observed.reward,
        "equity": observed.info["equity"],
    }


def told_account(fields: Mapping[str, Any]) -> AccountReport:
    """What `told_fields` gave."""
    return AccountReport(**fields)
