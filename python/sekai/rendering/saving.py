"""Saving frames as PNG, GIF and MP4 video."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sekai.rendering.renderer import Frame, checked_frame
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

MIN_FPS = 0.01
"""A GIF shows a frame for at most about ten minutes."""

GIF_MAX_FPS = 50
"""Above this rate players fall back to a tenth of it."""

VIDEO_MAX_FPS = 1000


def save_png(frame: Frame, path: str | os.PathLike[str]) -> None:
    """Write `frame` to `path` as a lossless PNG.

    An existing file is replaced atomically, and kept if writing fails.

    Args:
        frame: a uint8 array of shape (height, width, 3).
        path: file name that ends in `.png`.
    """
    optional_import("PIL", "report", "save_png")
    from PIL import Image

    image = Image.fromarray(checked_frame(frame, "frame"))
    with replace_file(path, ".png") as draft:
        image.save(draft, format="PNG", optimize=True)


def save_gif(frames: Iterable[Frame], path: str | os.PathLike[str], fps: float = 30) -> None:
    """Write `frames` to `path` as a GIF that loops forever.

    Frames with up to 256 colors are exact. An existing file is replaced atomically, and kept if
    writing fails.

    Args:
        frames: uint8 arrays of shape (height, width, 3), all of the same size.
        path: file name that ends in `.gif`.
        fps: frames per second, at most 50.
    """
    optional_import("PIL", "report", "save_gif")
    from PIL import Image

    rate = _checked_fps(fps, GIF_MAX_FPS)
    with replace_file(path, ".gif") as draft:
        first, *rest = [Image.fromarray(frame) for frame in _checked_frames(frames)]
        durations = _milliseconds(1 + len(rest), rate)
        first.save(
            draft, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0
        )


def save_video(frames: Iterable[Frame], path: str | os.PathLike[str], fps: float = 30) -> None:
    """Write `frames` to `path` as H.264 video.

    Frames are encoded as they are produced. H.264 needs even sizes: the last row or column of an
    odd size is repeated. An existing file is replaced atomically, and kept if writing fails.

    Args:
        frames: uint8 arrays of shape (height, width, 3), all of the same size.
        path: file name that ends in `.mp4`.
        fps: frames per second.
    """
    rate = _checked_fps(fps, VIDEO_MAX_FPS)
    ffmpeg: str = optional_import("imageio_ffmpeg", "report", "save_video").get_ffmpeg_exe()
    with replace_file(path, ".mp4") as draft:
        padded = _even_sized(_checked_frames(frames))
        first = next(padded)
        height, width, _ = first.shape
        _encode(chain([first], padded), _ffmpeg_command(ffmpeg, width, height, rate, draft))


def _checked_frames(frames: Iterable[Any]) -> Iterator[Frame]:
    shape: tuple[int, ...] | None = None
    for index, frame in enumerate(frames):
        image = checked_frame(frame, f"frame {index}")
        if shape is not None and image.shape != shape:
            raise ValueError(
                f"frame {index} must have the shape of the first, {shape}, got {image.shape}"
            )
        shape = image.shape
        yield image
    if shape is None:
        raise ValueError("no frames: at least one frame is needed")


def _checked_fps(fps: float, highest: float) -> float:
    is_number = isinstance(fps, (int, float)) and not isinstance(fps, bool)
    if not is_number or not MIN_FPS <= fps <= highest:
        raise ValueError(
            f"fps must be from {MIN_FPS:g} to {highest:g} frames per second, got {fps!r}"
        )
    return float(fps)


def _milliseconds(count: int, fps: float) -> list[int]:
    """Duration of each frame; GIFs count in hundredths, so rounding errors must not add up."""
    hundredths = [round(100 * number / fps) for number in range(count + 1)]
    return [10 * (after - before) for before, after in pairwise(hundredths)]


def _even_sized(frames: Iterable[Frame]) -> Iterator[Frame]:
    for frame in frames:
        height, width, _ = frame.shape
        yield np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _ffmpeg_command(ffmpeg: str, width: int, height: int, fps: float, path: Path) -> list[str]:
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", repr(fps)]
    codec = ["-an", "-vcodec", "libx264", "-crf", "18", "-pix_fmt", "yuv420p"]
    return [ffmpeg, "-y", "-v", "error", *source, "-i", "-", *codec, str(path)]


def _encode(frames: Iterable[Frame], command: list[str]) -> None:
    # A file instead of a pipe: stderr is not read while frames are written, and a full pipe blocks.
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr)
        try:
            _write_frames(frames, process)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        if process.returncode != 0:
            stderr.seek(0)
            reason = stderr.read().decode(errors="replace").strip()
            raise OSError(f"ffmpeg failed to write the video (code {process.returncode}): {reason}")


def _write_frames(frames: Iterable[Frame], process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            for frame in frames:
                pipe.write(frame.tobytes())
    except BrokenPipeError:
        # ffmpeg has exited; its exit code and stderr are reported by the caller.
        pass
