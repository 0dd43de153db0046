"""A request to end is taken as an interrupt from the keyboard: both stop cleanly."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["ending_as_interrupts"]


@contextlib.contextmanager
def ending_as_interrupts() -> Iterator[None]:
    """While it is entered, SIGTERM has the effect of Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
