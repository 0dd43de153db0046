"""Replaces a file in one move, so that readers find the old one or the new one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], suffix: str) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` if all goes well.

    Args:
        path: the file to replace or create.
        suffix: how the name of `path` must end, such as `.gif`.
    """
    target = Path(path)
    if target.suffix.lower() != suffix:
        raise ValueError(f"the file's name must end in {suffix}, was {str(target)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} to: create it"
        )
    # In the same folder: only there can a file be moved in one step.
    draft = target.with_name(f".{target.stem}.{secrets.token_hex(8)}{suffix}")
    try:
        yield draft
        _wait_for_disk(draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _wait_for_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
