"""Atomic replacement of files and folders: readers find the old content or the new, never half.

One fsync policy: the new content is synced before it is renamed to its target, and the folder is
synced after that, so that a power failure leaves one of the two as well. `fsync=False` skips both,
for files that are derived from others and rewritten often.

One place for file modes: `PRIVATE` files and folders are for their owner alone, whatever the umask;
`SHARED` ones follow the umask.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

PRIVATE = 0o600
"""Mode of files that their owner alone may read: those of live sessions."""

SHARED = 0o666
"""Mode of files that the umask restricts: models, reports and data."""


def atomic_write(
    path: Path,
    content: bytes | Iterable[bytes],
    *,
    fsync: bool = True,
    mode: int = PRIVATE,
) -> None:
    """Replace or create a file.

    Args:
        path: the target file.
        content: all bytes, or pieces of them in order.
        fsync: wait until the content is on disk.
        mode: `PRIVATE` or `SHARED`.
    """
    pieces = (content,) if isinstance(content, bytes) else content
    with _draft(path, fsync) as draft, _new_file(draft, mode) as file:
        for piece in pieces:
            _write_all(file.fileno(), piece)


def private_folder(path: Path) -> None:
    """Create a folder for its owner alone, and missing ones above it; one that exists is kept.

    The mode of an existing folder is left alone: it may be one that others need, such as /tmp.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Opener for `open` that creates a file for its owner alone, whatever the umask."""
    return os.open(path, flags, PRIVATE)


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str], suffix: str) -> Iterator[Path]:
    """Path of a draft that replaces `path` when the `with` block ends without an error.

    Args:
        path: the target file.
        suffix: required suffix of `path`, such as `.gif`.
    """
    target = Path(path)
    if target.suffix.lower() != suffix:
        raise ValueError(f"file name must end in {suffix}, got {str(target)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"no folder {str(target.parent)!r} to write {target.name!r} to; create it first"
        )
    with _draft(target, True) as draft:
        yield draft


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Path of a draft folder that is renamed to `path` when the `with` block ends without an error.

    Raises:
        FileExistsError: `path` exists.
    """
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists; remove it, or choose another name")
    with draft_folder(path) as draft:
        yield draft
        for item in draft.rglob("*"):
            _fsync_path(item) if item.is_file() else fsync_folder(item)
        os.rename(draft, path)
        fsync_folder(path.parent)


@contextlib.contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Temporary folder beside `path`, removed when the `with` block ends."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path.parent)!r}; create it first")
    draft = _draft_path(path)
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def create_file(path: Path, content: bytes) -> bool:
    """Create a private file with all of its content at once; False, and no change, if it exists."""
    draft = _draft_path(path)
    try:
        with _new_file(draft, PRIVATE) as file:
            _write_all(file.fileno(), content)
            fsync_file(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except (OSError, NotImplementedError):
            # File systems without hard links: a replaced file is better than none.
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    fsync_folder(path.parent)
    return True


def rename_file(source: Path, target: Path) -> None:
    """Move a file to `target`, replacing it; both are in folders of one file system."""
    _fsync_path(source)
    os.replace(source, target)
    fsync_folder(target.parent)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file in one write, and sync it; a torn last line is ended first."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        content = (b"\n" if torn else b"") + line + b"\n"
        written = os.write(file, content)
        if written != len(content):
            raise OSError(f"only {written} of {len(content)} bytes could be written to {path}")
        fsync_file(file)
    finally:
        os.close(file)


def fsync_file(file: int) -> None:
    """Wait until the content of an open file is on disk."""
    os.fsync(file)


def fsync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on disk."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _draft(target: Path, fsync: bool) -> Iterator[Path]:
    draft = _draft_path(target)
    try:
        yield draft
        if fsync:
            _fsync_path(draft)
        os.replace(draft, target)
        if fsync:
            fsync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def _draft_path(target: Path) -> Path:
    # In the same folder: a rename is atomic within one file system only. Writers of images and
    # tables choose their format by the suffix.
    return target.with_name(f".{target.stem}.{secrets.token_hex(8)}{target.suffix}")


def _new_file(path: Path, mode: int) -> io.FileIO:
    return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode))


def _fsync_path(path: Path) -> None:
    with path.open("rb+") as file:
        fsync_file(file.fileno())


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
