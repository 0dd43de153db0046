"""Copies the containers of an argument, and leaves what they contain alone.

A made env must not share the caller's dict; but it must share the caller's market data, which
may be larger than memory would hold twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["copied", "rebuilt"]


def copied(value: Any) -> Any:
    """`value` with new containers around the same contents."""
    return rebuilt(value, copied)


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` itself, or if it is a container, a new one with every item changed."""
    if type(value) is dict:
        return {change(key): change(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(change(item) for item in value)
    return value
