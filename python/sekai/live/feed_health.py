"""How a feed is doing, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FeedHealth"]


@dataclass(slots=True)
class FeedHealth:
    """Counts that only grow, and the last times; whoever reads the feed keeps them."""

    received: int = 0
    """Events that were handed on."""

    duplicates: int = 0
    late: int = 0
    """Events that came after later ones, and were left out."""

    gaps: int = 0
    missing: int = 0
    """Events that the venue counted and that never came."""

    garbage: int = 0
    """Frames that could not be read."""

    dropped: int = 0
    """Events that a full buffer gave up."""

    conflated: int = 0
    """Events that a buffer of the latest gave up for newer ones."""

    clock_jumps: int = 0
    outliers: int = 0
    """Events whose price is too far from the one before."""

    crossed: int = 0
    """Quotes whose bid is not below the ask."""

    reconnects: int = 0
    is_connected: bool = False
    is_stale: bool = False
    last_exchange_time: int = 0
    last_receive_time: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The same by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FeedHealth:
        """What `to_dict` gave."""
        return cls(**found)
