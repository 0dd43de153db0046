"""What can go wrong with a broker, on purpose and the same every time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar

__all__ = ["Chance", "PaperFaults"]

Chance: TypeAlias = "float | Sequence[int]"
"""How probable it is, or the numbers of the times when it happens, counted from 0."""

Item = TypeVar("Item")

_WHOLE = ("seed", "latency_bars", "latency_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFaults:
    """Faults of a paper broker: each probable by a share, or at given times.

    What happens depends on the seed and on what is counted alone, so that a broker that is rebuilt
    from its ledger goes wrong in the same way.
    """

    seed: int = 0
    reject: Chance = 0.0
    """An order is rejected; orders are counted."""

    lose_acknowledgement: Chance = 0.0
    """An order is taken, and `submit` raises; orders are counted."""

    fill_before_acknowledgement: Chance = 0.0
    """An order's acknowledgement comes after its first fill or its end; orders are counted."""

    partial_fill: Chance = 0.0
    """Only a part of an order is offered to the market in a row; what is offered is counted."""

    disconnect: Chance = 0.0
    """The connection breaks in a call, before or after it had its effect, and every call raises
    until `connect`; calls are counted."""

    latency_bars: int = 0
    """Rows until an order reaches the market, beyond the next one: drawn from 0 to this."""

    latency_seconds: float = 0.0
    """Seconds until a call is answered: drawn from 0 to this."""

    duplicate_report: Chance = 0.0
    """A report comes again, the next time somebody asks; reports are counted."""

    reorder_reports: Chance = 0.0
    """Reports come in another order than they were made; times that somebody asks are counted."""

    def __post_init__(self) -> None:
        if self.latency_bars < 0 or not 0.0 <= self.latency_seconds < float("inf"):
            raise ValueError(
                f"latencies of at least 0 were wanted, found {self.latency_bars} rows and "
                f"{self.latency_seconds} s"
            )
        for field in fields(self):
            if field.name not in _WHOLE:
                chance = _checked(field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, chance)

    def to_dict(self) -> dict[str, Any]:
        """The same by name, fit for JSON and TOML: `PaperFaults(**it)` is it again."""
        return {
            name: list(found) if isinstance(found, tuple) else found
            for name, found in asdict(self).items()
        }

    def happens(self, name: str, number: int) -> bool:
        """Whether the fault called `name` happens the `number`-th time that it could."""
        chance: float | tuple[int, ...] = getattr(self, name)
        if isinstance(chance, tuple):
            return number in chance
        return chance > 0.0 and self._rng(name, number).random() < chance

    def break_in(self, call: int) -> Literal["before", "after"] | None:
        """When the connection breaks in a call: before or after it had its effect."""
        if not self.happens("disconnect", call):
            return None
        return "before" if self._rng("when", call).random() < 0.5 else "after"

    def offered(self, number: int) -> float:
        """What share of an order is offered to the market."""
        if not self.happens("partial_fill", number):
            return 1.0
        return self._rng("share", number).uniform(0.05, 0.95)

    def rows_late(self, number: int) -> int:
        """How many rows later than the next an order reaches the market."""
        return self._rng("rows", number).randint(0, self.latency_bars) if self.latency_bars else 0

    def seconds_late(self, call: int) -> float:
        """How long a call takes."""
        if self.latency_seconds == 0.0:
            return 0.0
        return self._rng("seconds", call).uniform(0.0, self.latency_seconds)

    def shuffled(self, items: list[Item], number: int) -> list[Item]:
        """The items as they come when they come out of order."""
        if not self.happens("reorder_reports", number):
            return items
        return self._rng("order", number).sample(items, len(items))

    def _rng(self, name: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}/{name}/{number}")


def _checked(name: str, chance: Chance) -> float | tuple[int, ...]:
    if isinstance(chance, (int, float)) and not isinstance(chance, bool):
        if 0.0 <= chance <= 1.0:
            return float(chance)
    elif isinstance(chance, Sequence) and all(type(n) is int and n >= 0 for n in chance):
        return tuple(chance)
    raise ValueError(
        f"{name} must be a probability or the numbers of the times when it happens, was {chance!r}"
    )
