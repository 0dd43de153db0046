"""Replaces a file in one move: whoever reads finds the old one or the new one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sekai.live.journal_file import wait_for_folder

__all__ = ["replaced"]


def replaced(path: Path, content: bytes, *, wait: bool) -> None:
    """Let `path` have this content.

    Args:
        path: the file to replace or create.
        content: all of it.
        wait: whether to wait for the disk. Who does not may find an empty file after a power cut,
            and keeps nobody else waiting for it.
    """
    # In the same folder: only there can a file be moved in one step.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", buffering=0) as file:
            written = file.write(content)
            if written != len(content):
                raise OSError(f"{written} of {len(content)} bytes could be written to {draft}")
            if wait:
                os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if wait:
        wait_for_folder(path.parent)
