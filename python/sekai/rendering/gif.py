"""Saves frames as an animated GIF."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise

from sekai.error import MissingExtraError
from sekai.rendering.frames import checked_frames, checked_rate
from sekai.rendering.renderer import Frame
from sekai.rendering.replacement import replacing

__all__ = ["save_gif"]

HIGHEST_RATE = 50
"""Players show anything quicker ten times slower."""


def save_gif(frames: Iterable[Frame], path: str | os.PathLike[str], fps: float = 30) -> None:
    """Write `frames` to `path` as a GIF that repeats for ever.

    Frames of up to 256 colours are exact. A file that is there already is replaced in one move,
    and is kept if anything goes wrong.

    Args:
        frames: uint8 arrays (height, width, 3), all of one size.
        path: where to; its name ends in `.gif`.
        fps: frames a second, at most 50.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError.of("pillow", "report", "save_gif") from error

    rate = checked_rate(fps, HIGHEST_RATE)
    with replacing(path, ".gif") as draft:
        first, *rest = [Image.fromarray(frame) for frame in checked_frames(frames)]
        durations = _milliseconds(1 + len(rest), rate)
        first.save(
            draft, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0
        )


def _milliseconds(count: int, fps: float) -> list[int]:
    """How long each frame is shown. GIFs count in hundredths, so the rounding must not add up."""
    hundredths = [round(100 * number / fps) for number in range(count + 1)]
    return [10 * (after - before) for before, after in pairwise(hundredths)]
