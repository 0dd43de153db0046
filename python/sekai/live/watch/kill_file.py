"""The file that stops all trading of a session while it is there."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from sekai.rendering.replacement import replacing

__all__ = ["kill_reason", "put_kill_file", "remove_kill_file"]

LONGEST_REASON = 200


def kill_reason(file: Path) -> str | None:
    """Why trading was stopped; None if it was not. A file that cannot be read stops it as well."""
    try:
        with file.open(encoding="utf-8", errors="replace") as found:
            return _one_line(found.read(LONGEST_REASON * 4)) or "no reason was given"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"the reason cannot be read: {error.strerror}"


def put_kill_file(file: Path, reason: str) -> None:
    """Stop all trading: the file is there as a whole or not at all, and the first reason stays."""
    if file.exists():
        return
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    try:
        with replacing(file, "") as draft:
            # What was typed may hold half a character, which no file takes.
            draft.write_text(f"{_one_line(reason)} ({now})\n", encoding="utf-8", errors="replace")
    except OSError:
        # A disk that is full has no room for words, but for a name: that is enough.
        file.touch()


def remove_kill_file(file: Path) -> None:
    """Allow trading again. If it was allowed, nothing happens."""
    file.unlink(missing_ok=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]
