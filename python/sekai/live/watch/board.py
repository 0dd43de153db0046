"""What all sources say, read as often as is useful and no oftener, however many look."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sekai.live.watch.source import Source

__all__ = ["Board", "Posted"]

READ_SECONDS = 0.2
"""The least time between two looks at the files."""


@dataclass(slots=True)
class Posted:
    """The last that a source said."""

    version: Hashable = field(default_factory=object)
    value: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    changes: int = 0


class Board:
    """Keeps what sources said: many watchers cost as much as one."""

    def __init__(self, sources: Sequence[Source], read_seconds: float = READ_SECONDS) -> None:
        """Say what is watched.

        Args:
            sources: in the order in which they are shown.
            read_seconds: the least time between two looks.
        """
        self.sources = tuple(sources)
        self._posted = tuple(Posted() for _ in self.sources)
        self._read_seconds = read_seconds
        self._looked = -float("inf")
        self._turn = asyncio.Lock()

    async def posted(self, *, at_once: bool = False) -> tuple[Posted, ...]:
        """What each source says, at most a moment old; `at_once` for no moment at all."""
        async with self._turn:
            if at_once or time.monotonic() - self._looked >= self._read_seconds:
                # In a thread: the first look at a long training takes a while.
                await asyncio.to_thread(self._look)
                self._looked = time.monotonic()
        return self._posted

    def _look(self) -> None:
        for source, posted in zip(self.sources, self._posted, strict=True):
            version = source.version()
            if version == posted.version:
                continue
            value = source.read()
            text = json.dumps(value, allow_nan=False)
            posted.version, posted.value = version, value
            if text != posted.text:
                posted.text = text
                posted.changes += 1
