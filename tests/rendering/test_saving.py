"""Saving frames as GIF and MP4, read back by other programs."""

from __future__ import annotations

import importlib
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from sekai.error import MissingExtraError
from sekai.rendering import Frame, save_gif, save_video
from sekai.rendering.saving import _milliseconds
from sekai.storage.files import replace_file

Save = Callable[..., None]
BOTH = pytest.mark.parametrize(("save", "suffix"), [(save_gif, ".gif"), (save_video, ".mp4")])


def moving_square(count: int = 6, height: int = 48, width: int = 64) -> list[Frame]:
    """A light square that moves to the right on dark blue."""
    frames = []
    for number in range(count):
        frame = np.full((height, width, 3), (0, 0, 90), dtype=np.uint8)
        left = number * 8
        frame[16:32, left : left + 16] = (250, 240, 60)
        frames.append(frame)
    return frames


def read_gif(path: Path) -> tuple[list[Frame], list[int]]:
    with Image.open(path) as image:
        pages = [
            (np.asarray(page.convert("RGB")), int(page.info["duration"]))
            for page in ImageSequence.Iterator(image)
        ]
    return [frame for frame, _ in pages], [duration for _, duration in pages]


def read_video(path: Path) -> tuple[list[Frame], tuple[str, ...]]:
    """The frames of a video, and its codec, width, height and rate as ffmpeg tells them."""
    ffmpeg: str = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    command = [ffmpeg, "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    run = subprocess.run(command, check=True, capture_output=True)
    found = re.search(r"Video: (\w+).*?, (\d+)x(\d+).*?, ([\d.]+) fps", run.stderr.decode())
    assert found is not None
    size = int(found[3]), int(found[2]), 3
    return list(np.frombuffer(run.stdout, np.uint8).reshape(-1, *size)), found.groups()


def test_a_gif_is_read_back_pixel_for_pixel(tmp_path: Path) -> None:
    frames = moving_square()

    save_gif(frames, tmp_path / "walk.gif", fps=10)

    read, durations = read_gif(tmp_path / "walk.gif")
    assert np.array_equal(read, frames)
    assert durations == [100] * 6


@given(st.integers(1, 200), st.floats(0.1, 50))
def test_the_rounding_of_a_gif_never_adds_up(count: int, fps: float) -> None:
    durations = _milliseconds(count, fps)

    assert len(durations) == count
    assert abs(sum(durations) - 1000 * count / fps) <= 5
    assert min(durations) >= 20


def test_a_video_is_read_back_frame_for_frame(tmp_path: Path) -> None:
    frames = moving_square(10)

    save_video(frames, tmp_path / "walk.mp4", fps=25)

    read, details = read_video(tmp_path / "walk.mp4")
    assert len(read) == 10
    assert details == ("h264", "64", "48", "25")
    # The codec is lossy, above all at the edges; on the whole the picture is the same.
    assert max(np.abs(r.astype(int) - f).mean() for r, f in zip(read, frames, strict=True)) < 6


@pytest.mark.parametrize(("height", "width"), [(49, 64), (48, 65), (49, 65), (1, 1)])
def test_an_odd_size_is_made_even_by_its_last_line(tmp_path: Path, height: int, width: int) -> None:
    frames = [np.full((height, width, 3), 180, dtype=np.uint8)] * 3

    save_video(frames, tmp_path / "odd.mp4")

    read, details = read_video(tmp_path / "odd.mp4")
    assert details[1:3] == (str(width + width % 2), str(height + height % 2))
    assert np.abs(np.array(read).astype(int) - 180).max() < 8


@BOTH
def test_frames_may_be_produced_on_the_way(tmp_path: Path, save: Save, suffix: str) -> None:
    save((frame for frame in moving_square()), tmp_path / f"walk{suffix}")

    assert (tmp_path / f"walk{suffix}").stat().st_size > 0


@BOTH
def test_a_path_may_be_text(tmp_path: Path, save: Save, suffix: str) -> None:
    save(moving_square(), str(tmp_path / f"walk{suffix.upper()}"))

    assert [path.name for path in tmp_path.iterdir()] == [f"walk{suffix.upper()}"]


@BOTH
def test_an_old_file_is_replaced(tmp_path: Path, save: Save, suffix: str) -> None:
    path = tmp_path / f"walk{suffix}"
    save(moving_square(2), path)
    before = path.read_bytes()

    save(moving_square(6), path)

    assert path.read_bytes() != before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@BOTH
def test_a_failure_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, save: Save, suffix: str
) -> None:
    path = tmp_path / f"walk{suffix}"
    path.write_bytes(b"the old one")

    def broken() -> Iterator[Frame]:
        yield from moving_square(2)
        raise RuntimeError("the market closed")

    with pytest.raises(RuntimeError, match="the market closed"):
        save(broken(), path)

    assert path.read_bytes() == b"the old one"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@BOTH
def test_who_reads_the_old_file_can_read_it_to_the_end(
    tmp_path: Path, save: Save, suffix: str
) -> None:
    path = tmp_path / f"walk{suffix}"
    path.write_bytes(b"the old one")

    with path.open("rb") as reader:
        begun = reader.read(3)
        save(moving_square(), path)

        assert begun + reader.read() == b"the old one"


def test_a_draft_that_was_begun_is_removed_after_a_failure(tmp_path: Path) -> None:
    def write_half() -> None:
        with replace_file(tmp_path / "walk.gif", ".gif") as draft:
            draft.write_bytes(b"half of it")
            raise RuntimeError("the market closed")

    with pytest.raises(RuntimeError, match="the market closed"):
        write_half()

    assert list(tmp_path.iterdir()) == []


@BOTH
def test_a_saved_file_has_the_usual_permissions(tmp_path: Path, save: Save, suffix: str) -> None:
    usual = tmp_path / "usual"
    usual.touch()

    save(moving_square(), tmp_path / f"walk{suffix}")

    mode = stat.S_IMODE((tmp_path / f"walk{suffix}").stat().st_mode)
    assert mode == stat.S_IMODE(usual.stat().st_mode)


@BOTH
@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "at least one frame"),
        ([np.zeros((4, 4), np.uint8)], "frame 0 must be uint8 of shape"),
        ([np.zeros((4, 4, 3))], "got float64"),
        ([np.zeros((4, 4, 4), np.uint8)], r"got uint8 of shape \(4, 4, 4\)"),
        ([np.zeros((0, 4, 3), np.uint8)], r"got uint8 of shape \(0, 4, 3\)"),
        (
            [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)],
            "frame 1 must have the shape",
        ),
        ([[[1, 2, 3]]], "must be a NumPy array, got list"),
    ],
)
def test_bad_frames_are_refused_and_no_file_is_left(
    tmp_path: Path, save: Save, suffix: str, frames: list[Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        save(frames, tmp_path / f"walk{suffix}")

    assert list(tmp_path.iterdir()) == []


@BOTH
@pytest.mark.parametrize("fps", [0, -1, float("nan"), 10**6, "30", True])
def test_a_bad_rate_is_refused(tmp_path: Path, save: Save, suffix: str, fps: Any) -> None:
    with pytest.raises(ValueError, match="frames per second, got"):
        save(moving_square(), tmp_path / f"walk{suffix}", fps=fps)


@BOTH
def test_a_wrong_name_or_folder_is_refused(tmp_path: Path, save: Save, suffix: str) -> None:
    with pytest.raises(ValueError, match=f"must end in {suffix}"):
        save(moving_square(), tmp_path / "walk.png")
    with pytest.raises(FileNotFoundError, match="no folder .*absent"):
        save(moving_square(), tmp_path / "absent" / f"walk{suffix}")


def test_what_the_encoder_complains_about_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tmp_path / "encoder"
    encoder.write_text("#!/bin/sh\necho 'the disk is full' >&2\nexit 3\n")
    encoder.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(encoder))
    (tmp_path / "videos").mkdir()

    with pytest.raises(OSError, match=r"code 3\): the disk is full"):
        save_video(moving_square(200, 480, 640), tmp_path / "videos" / "walk.mp4")

    assert os.listdir(tmp_path / "videos") == []


@pytest.mark.parametrize(
    ("save", "name", "package"),
    [(save_gif, "walk.gif", "PIL"), (save_video, "walk.mp4", "imageio_ffmpeg")],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Save, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError, match=r"\.\[report\]"):
        save(moving_square(), tmp_path / name)
