"""Integer codes of sides, time in force, self-trade rules, operations and statuses."""

from __future__ import annotations

from enum import IntEnum


class Side(IntEnum):
    """Side of an order: buy or sell."""

    BUY = 0
    SELL = 1

    @property
    def opposite(self) -> Side:
        """Opposite side."""
        return Side.SELL if self is Side.BUY else Side.BUY

    @property
    def sign(self) -> int:
        """Sign of a fill's position change: 1 for a buyer, -1 for a seller."""
        return 1 if self is Side.BUY else -1


class TimeInForce(IntEnum):
    """Time in force: handling of lots that cannot trade at once."""

    GOOD_TILL_CANCELLED = 0
    """Rest until filled or cancelled."""
    POST_ONLY = 1
    """Rest; an order that could trade at once is refused."""
    IMMEDIATE_OR_CANCEL = 2
    """Cancel."""
    FILL_OR_KILL = 3
    """Refuse the order."""


class SelfTrade(IntEnum):
    """Self-trade prevention: rule for an incoming order that matches its own resting order."""

    ALLOW = 0
    """Trade like any two orders."""
    CANCEL_RESTING = 1
    """Cancel the resting (older) order and continue with the incoming one."""
    CANCEL_INCOMING = 2
    """Cancel the rest of the incoming (newer) order."""
    DECREMENT_BOTH = 3
    """Reduce both by the smaller of the two sizes without a trade."""


class Operation(IntEnum):
    """Operation of a batch row, with the columns that it reads."""

    LIMIT = 0
    """account, side, price, size"""
    POST_ONLY = 1
    """account, side, price, size"""
    IMMEDIATE_OR_CANCEL = 2
    """account, side, price, size"""
    FILL_OR_KILL = 3
    """account, side, price, size"""
    MARKET = 4
    """account, side, size"""
    CANCEL = 5
    """id"""
    REDUCE = 6
    """id, size: the lots to remove"""
    REPLACE = 7
    """id, price, size"""
    CANCEL_ALL = 8
    """account"""


class Status(IntEnum):
    """Status of a batch row: executed, or the reason of the refusal."""

    OK = 0
    SIZE_OUT_OF_RANGE = 1
    PRICE_OUT_OF_RANGE = 2
    UNKNOWN_SIDE = 3
    UNKNOWN_ACCOUNT = 4
    NOT_RESTING = 5
    WOULD_TRADE = 6
    NOT_FILLABLE = 7
    NOTHING_LEFT = 8
    LEVEL_FULL = 9
    BOOK_FULL = 10
