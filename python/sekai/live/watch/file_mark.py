"""Whether a file is another one than before, without reading it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FileMark", "mark_of"]

FileMark = tuple[int, int, int] | None
"""None where there is no file."""


def mark_of(file: Path) -> FileMark:
    """What differs when the file was written or replaced."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
