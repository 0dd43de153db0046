"""Saves a frame as a PNG."""

from __future__ import annotations

import os

from sekai.error import MissingExtraError
from sekai.rendering.frames import checked_frame
from sekai.rendering.renderer import Frame
from sekai.rendering.replacement import replacing

__all__ = ["save_png"]


def save_png(frame: Frame, path: str | os.PathLike[str]) -> None:
    """Write `frame` to `path`, every pixel as it is.

    A file that is there already is replaced in one move, and is kept if anything goes wrong.

    Args:
        frame: a uint8 array (height, width, 3).
        path: where to; its name ends in `.png`.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError.of("pillow", "report", "save_png") from error

    picture = Image.fromarray(checked_frame(frame, "the frame"))
    with replacing(path, ".png") as draft:
        picture.save(draft, format="PNG", optimize=True)
