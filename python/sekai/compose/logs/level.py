"""How much an entry of a log matters."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["LogLevel"]


class LogLevel(IntEnum):
    """From what is looked at when something is wrong to what must never be left out."""

    DEBUG = 10
    """Large or many: observations, actions, histories."""

    PERIODIC = 20
    """Of every step; told now and then."""

    INFO = 30
    CRITICAL = 40
