"""Checks what renderers give back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sekai.rendering.renderer import Frame

__all__ = ["checked_frame", "checked_frames", "checked_rate"]

LOWEST_RATE = 0.01
"""A frame can be shown for about ten minutes at most in a GIF; this is well within."""


def checked_frame(frame: Any, source: str) -> Frame:
    """Return `frame` if it is a picture, or raise a `ValueError` that names its `source`."""
    if not isinstance(frame, np.ndarray):
        raise ValueError(f"{source} must be a NumPy array, was {type(frame).__name__}")
    is_colour = frame.ndim == 3 and frame.shape[2] == 3 and min(frame.shape) > 0
    if frame.dtype != np.uint8 or not is_colour:
        raise ValueError(
            f"{source} must be uint8 of shape (height, width, 3), "
            f"was {frame.dtype} of shape {frame.shape}"
        )
    return frame


def checked_frames(frames: Iterable[Any]) -> Iterator[Frame]:
    """The frames one by one, as long as each is a picture as large as the first."""
    shape: tuple[int, ...] | None = None
    for number, frame in enumerate(frames):
        picture = checked_frame(frame, f"frame {number}")
        if shape is not None and picture.shape != shape:
            raise ValueError(
                f"frame {number} must be as large as the first, {shape}, was {picture.shape}"
            )
        shape = picture.shape
        yield picture
    if shape is None:
        raise ValueError("at least one frame is needed, there were none")


def checked_rate(fps: float, highest: float) -> float:
    """Return `fps` if it is a number of frames a second that the format can hold."""
    is_number = isinstance(fps, (int, float)) and not isinstance(fps, bool)
    if not is_number or not LOWEST_RATE <= fps <= highest:
        raise ValueError(
            f"fps must be from {LOWEST_RATE:g} to {highest:g} frames a second, was {fps!r}"
        )
    return float(fps)
