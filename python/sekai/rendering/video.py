"""Saves frames as an MP4 video."""

from __future__ import annotations

import importlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from sekai.error import MissingExtraError
from sekai.rendering.frames import checked_frames, checked_rate
from sekai.rendering.renderer import Frame
from sekai.rendering.replacement import replacing

__all__ = ["save_video"]

HIGHEST_RATE = 1000


def save_video(frames: Iterable[Frame], path: str | os.PathLike[str], fps: float = 30) -> None:
    """Write `frames` to `path` as H.264 video that every player shows.

    Frames are encoded as they come, so they may be produced on the way. The format wants even
    sizes: of an odd one, the last row or column is shown twice. A file that is there already is
    replaced in one move, and is kept if anything goes wrong.

    Args:
        frames: uint8 arrays (height, width, 3), all of one size.
        path: where to; its name ends in `.mp4`.
        fps: frames a second.
    """
    rate = checked_rate(fps, HIGHEST_RATE)
    encoder = _encoder()
    with replacing(path, ".mp4") as draft:
        evened = _evened(checked_frames(frames))
        first = next(evened)
        height, width, _ = first.shape
        _encode(chain([first], evened), _command(encoder, width, height, rate, draft))


def _encode(frames: Iterable[Frame], command: list[str]) -> None:
    # A file, not a pipe: nobody reads while frames are written, and a full pipe would block.
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=complaints)
        try:
            _send(frames, process)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        if process.returncode != 0:
            complaints.seek(0)
            reason = complaints.read().decode(errors="replace").strip()
            raise OSError(f"ffmpeg could not write the video (code {process.returncode}): {reason}")


def _send(frames: Iterable[Frame], process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            for frame in frames:
                pipe.write(frame.tobytes())
    except BrokenPipeError:
        # The encoder has given up; why, its exit code and its complaints will tell.
        pass


def _command(encoder: str, width: int, height: int, fps: float, path: Path) -> list[str]:
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", repr(fps)]
    codec = ["-an", "-vcodec", "libx264", "-crf", "18", "-pix_fmt", "yuv420p"]
    return [encoder, "-y", "-v", "error", *source, "-i", "-", *codec, str(path)]


def _evened(frames: Iterable[Frame]) -> Iterator[Frame]:
    for frame in frames:
        height, width, _ = frame.shape
        yield np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _encoder() -> str:
    """The program that encodes."""
    try:
        found: str = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except ImportError as error:
        raise MissingExtraError.of("imageio-ffmpeg", "report", "save_video") from error
    return found
