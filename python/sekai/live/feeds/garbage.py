"""What stands in a file where an event was wanted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Garbage"]


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that could not be read."""

    detail: str
