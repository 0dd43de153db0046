"""The numbers by which calls and columns name sides, rules, operations and refusals."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Operation", "SelfTrade", "Side", "Status", "TimeInForce"]


class Side(IntEnum):
    """Whether an order buys or sells."""

    BUY = 0
    SELL = 1

    @property
    def opposite(self) -> Side:
        """The side that this one trades against."""
        return Side.SELL if self is Side.BUY else Side.BUY

    @property
    def sign(self) -> int:
        """1 for a buyer, -1 for a seller: the direction in which a fill moves a position."""
        return 1 if self is Side.BUY else -1


class TimeInForce(IntEnum):
    """What an order does with the lots that cannot trade at once."""

    GOOD_TILL_CANCELLED = 0
    """They rest until they trade or are cancelled."""
    POST_ONLY = 1
    """They rest, and an order that could trade at once is refused."""
    IMMEDIATE_OR_CANCEL = 2
    """They are cancelled."""
    FILL_OR_KILL = 3
    """An order with such lots is refused."""


class SelfTrade(IntEnum):
    """The rule for an incoming order that meets a resting order of its own account."""

    ALLOW = 0
    """They trade like any two orders."""
    CANCEL_RESTING = 1
    """The resting (older) order is cancelled and the incoming one goes on."""
    CANCEL_INCOMING = 2
    """What is left of the incoming (newer) order is cancelled."""
    DECREMENT_BOTH = 3
    """Both lose the smaller of the two sizes without a trade."""


class Operation(IntEnum):
    """What a row of a batch does, and which columns it reads."""

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
    """id, size: the lots to take away"""
    REPLACE = 7
    """id, price, size"""
    CANCEL_ALL = 8
    """account"""


class Status(IntEnum):
    """What became of a row of a batch: done, or why it was refused."""

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
