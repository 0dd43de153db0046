"""Replaces a file in one move: whoever reads finds the old one or the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from sekai.live.journal_file import wait_for_folder

__all__ = ["replaced"]


def replaced(path: Path, content: bytes | Iterable[bytes], *, wait: bool) -> None:
    """Let `path` have this content.

    Args:
        path: the file to replace or create.
        content: all of it, or one piece after the other.
        wait: whether to wait for the disk. Who does not may find an empty file after a power cut,
            and keeps nobody else waiting for it.
    """
    # In the same folder: only there can a file be moved in one step.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", buffering=0) as file:
            for piece in (content,) if isinstance(content, bytes) else content:
                written = file.write(piece)
                if written != len(piece):
                    raise OSError(f"{written} of {len(piece)} bytes could be written to {draft}")
            if wait:
                os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if wait:
        wait_for_folder(path.parent)
