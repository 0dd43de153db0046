"""Fault injection for paper brokers, reproducible by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar

from sekai.config.checked import CheckedConfig

__all__ = ["FaultSchedule", "PaperFaults"]

FaultSchedule: TypeAlias = "float | Sequence[int]"
"""Probability of a fault, or the indices of the events in which it happens."""

Item = TypeVar("Item")

_NO_SCHEDULE = ("seed", "latency_bars", "latency_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFaults(CheckedConfig):
    """Faults of a paper broker: each with a probability, or at given events.

    Faults depend on the seed and the event count alone, so that a broker rebuilt from its ledger
    has the same faults.
    """

    seed: int = 0
    reject: FaultSchedule = 0.0
    """Reject an order; counted per order."""

    lose_acknowledgement: FaultSchedule = 0.0
    """Accept an order and raise in `submit`; counted per order."""

    fill_before_acknowledgement: FaultSchedule = 0.0
    """Acknowledge an order after its first fill or its end; counted per order."""

    partial_fill: FaultSchedule = 0.0
    """Offer only a part of an order to the market in a row; counted per offer."""

    disconnect: FaultSchedule = 0.0
    """Lose the connection in a call, before or after its effect; every call raises until
    `connect`. Counted per call."""

    latency_bars: int = 0
    """Largest additional delay of an order in rows; drawn uniformly from 0."""

    latency_seconds: float = 0.0
    """Largest delay of an answer in seconds; drawn uniformly from 0."""

    duplicate_report: FaultSchedule = 0.0
    """Deliver a report again with the next call of `reports`; counted per report."""

    reorder_reports: FaultSchedule = 0.0
    """Deliver reports out of order; counted per call of `reports`."""

    def __post_init__(self) -> None:
        if self.latency_bars < 0 or not 0.0 <= self.latency_seconds < float("inf"):
            raise ValueError(
                f"latencies must be at least 0, got {self.latency_bars} rows and "
                f"{self.latency_seconds} s"
            )
        for field in fields(self):
            if field.name not in _NO_SCHEDULE:
                schedule = _checked(field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, schedule)

    def to_dict(self) -> dict[str, Any]:
        """Arguments by name for JSON and TOML; `PaperFaults(**values)` restores it."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def happens(self, name: str, number: int) -> bool:
        """Return True if the fault `name` happens in its event `number`."""
        schedule: float | tuple[int, ...] = getattr(self, name)
        if isinstance(schedule, tuple):
            return number in schedule
        return schedule > 0.0 and self._rng(name, number).random() < schedule

    def break_in(self, call: int) -> Literal["before", "after"] | None:
        """Time of a connection loss in a call: before or after its effect; None for no loss."""
        if not self.happens("disconnect", call):
            return None
        return "before" if self._rng("when", call).random() < 0.5 else "after"

    def offered(self, number: int) -> float:
        """Share of an order that is offered to the market."""
        if not self.happens("partial_fill", number):
            return 1.0
        return self._rng("share", number).uniform(0.05, 0.95)

    def rows_late(self, number: int) -> int:
        """Additional delay of an order in rows."""
        return self._rng("rows", number).randint(0, self.latency_bars) if self.latency_bars else 0

    def seconds_late(self, call: int) -> float:
        """Delay of a call in seconds."""
        if self.latency_seconds == 0.0:
            return 0.0
        return self._rng("seconds", call).uniform(0.0, self.latency_seconds)

    def shuffled(self, items: list[Item], number: int) -> list[Item]:
        """Items in the order of delivery."""
        if not self.happens("reorder_reports", number):
            return items
        return self._rng("order", number).sample(items, len(items))

    def _rng(self, name: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}/{name}/{number}")


def _checked(name: str, schedule: FaultSchedule) -> float | tuple[int, ...]:
    if isinstance(schedule, (int, float)) and not isinstance(schedule, bool):
        if 0.0 <= schedule <= 1.0:
            return float(schedule)
    elif isinstance(schedule, Sequence) and all(type(n) is int and n >= 0 for n in schedule):
        return tuple(schedule)
    raise ValueError(
        f"{name} must be a probability or a sequence of event indices, got {schedule!r}"
    )
