"""What turns the frames of a venue into events: all that a new venue needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from sekai.live.events import FeedEvent

__all__ = ["Decoder"]


@runtime_checkable
class Decoder(Protocol):
    """Knows the language of a venue."""

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """The events of a frame, none if it is not about the market.

        Args:
            frame: as it came.
            receive_time: when it was read, by this machine's clock, in nanoseconds since 1970.
            arrival: the same by `time.perf_counter_ns`.

        Raises:
            FeedError: it cannot be read; nothing else is ever raised, whatever the frame is.
        """

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """The messages that ask a venue for these symbols."""
