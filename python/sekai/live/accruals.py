"""What an account pays without a trade."""

from __future__ import annotations

from sekai.live.broker import BrokerAccount

__all__ = ["accrued"]

_OF_TRADES = frozenset({"proportional", "fixed", "half_spread", "spread", "impact", "delisting"})


def accrued(account: BrokerAccount) -> float:
    """Everything paid so far that no fill told of: borrowing and financing."""
    return sum(paid for kind, paid in account.costs.items() if kind not in _OF_TRADES)
