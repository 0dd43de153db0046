"""Several renderers that watch one environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from sekai.error import ClosedError
from sekai.rendering.frames import checked_frame
from sekai.rendering.renderer import Frame, Renderer, Renders, Watches

__all__ = ["CompositeRenderer"]


class CompositeRenderer(Renderer):
    """Draws with every renderer, and joins their frames into one picture.

    `frames` has the parts of the last picture. Frames that are smaller than their neighbours
    stand on black.
    """

    def __init__(self, *renderers: Renders, layout: Literal["row", "column"] = "row") -> None:
        """Watch with `renderers`, shown from left to right or from top to bottom."""
        if not renderers:
            raise ValueError("a CompositeRenderer needs at least one renderer, was given none")
        if layout not in ("row", "column"):
            raise ValueError(f"layout must be 'row' or 'column', was {layout!r}")
        self.renderers = renderers
        self.frames: tuple[Frame, ...] = ()
        self._axis = 1 if layout == "row" else 0
        self._closed = False

    def render(self, env: Any) -> Frame:
        """Draw `env` with every renderer."""
        if self._closed:
            raise ClosedError("the CompositeRenderer is closed: make a new one")
        self.frames = tuple(
            checked_frame(renderer.render(env), f"the frame of {type(renderer).__name__}")
            for renderer in self.renderers
        )
        return _joined(self.frames, self._axis)

    def watch(self, env: Any) -> None:
        """Let every renderer that watches take note of `env`."""
        if self._closed:
            raise ClosedError("the CompositeRenderer is closed: make a new one")
        for renderer in self.renderers:
            if isinstance(renderer, Watches):
                renderer.watch(env)

    def close(self) -> None:
        """Close every renderer, also when one of them fails; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.frames = ()
        _close_all(self.renderers)


def _joined(frames: Sequence[Frame], axis: int) -> Frame:
    across = 1 - axis
    extent = max(frame.shape[across] for frame in frames)
    parts = []
    for frame in frames:
        margins = [(0, 0), (0, 0), (0, 0)]
        margins[across] = (0, extent - frame.shape[across])
        parts.append(np.pad(frame, margins))
    return np.concatenate(parts, axis=axis)


def _close_all(renderers: Sequence[Renders]) -> None:
    if not renderers:
        return
    try:
        renderers[0].close()
    finally:
        _close_all(renderers[1:])
