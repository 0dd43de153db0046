"""Whether a portfolio may borrow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CashAccount", "MarginAccount"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CashAccount:
    """No debts, nothing sold short."""

    @property
    def leverage(self) -> float:
        """How many times equity may be held."""
        return 1.0

    def settings(self) -> Any:
        """What the Rust core is given."""
        return "cash"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginAccount:
    """What is held and owed may be more than equity, until it is called."""

    leverage: float = 2.0
    """How many times equity may be held, long and short together, when orders fill."""

    maintenance: float = 0.25
    """The least equity for each unit of value held. Below it there is a margin call: the next
    fills bring what is held down to `leverage` times equity, and nothing is added before."""

    def settings(self) -> Any:
        """What the Rust core is given."""
        return {"margin": asdict(self)}
