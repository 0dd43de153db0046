"""An interrupt from the keyboard waits until there is something whole to keep."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType

__all__ = ["Interruption"]

LOG = logging.getLogger(__name__)


class Interruption:
    """While it is entered, the first interrupt is noted; the second has its usual effect.

    Where interrupts are handled by somebody else, or in other threads, they stay as they are.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._is_watching = False

    def __enter__(self) -> Interruption:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._is_watching = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_watching = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        LOG.warning("interrupted: training ends after this iteration; once more ends it at once")
