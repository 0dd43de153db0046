"""Commands of operators to a running session, such as adopting the broker's account.

A command is a file in the folder `commands` of the session. The session journals it, carries it out
and removes the file; a session that is not running does so at its next start.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sekai.live.config import SessionFolder
from sekai.storage.files import create_file
from sekai.storage.strict_json import parse_json

__all__ = ["CommandName", "SessionCommand", "take_commands", "write_command"]

CommandName = Literal["adopt_account", "reset_peak", "reset_day"]
MAX_COMMAND_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCommand:
    """Deliberate command of a person: it is journaled with its reason."""

    name: CommandName
    reason: str
    by: str

    def __post_init__(self) -> None:
        if self.name not in get_args(CommandName):
            raise ValueError(
                f"unknown command {self.name!r}; expected one of {get_args(CommandName)}"
            )
        for field in ("reason", "by"):
            text = getattr(self, field)
            if not isinstance(text, str) or not text.strip() or len(text) > 1000:
                raise ValueError(
                    f"{field} must be a text of 1 to 1000 characters, got {text!r:.40}"
                )

    def to_fields(self) -> dict[str, Any]:
        """Fields of a journal record."""
        return {"command": self.name, "reason": self.reason, "by": self.by}


def write_command(folder: SessionFolder, command: SessionCommand) -> None:
    """Hand a command to the session of a folder.

    Raises:
        FileNotFoundError: there is no session in the folder.
    """
    if not folder.path.is_dir():
        raise FileNotFoundError(f"no session in {folder.path}")
    folder.commands.mkdir(mode=0o700, exist_ok=True)
    path = folder.commands / f"{command.name}-{secrets.token_hex(4)}.json"
    create_file(path, json.dumps(asdict(command)).encode("utf-8"))


def take_commands(folder: SessionFolder, alert: Callable[[str], None]) -> list[SessionCommand]:
    """Commands that wait, oldest first; their files are removed.

    Args:
        folder: session folder.
        alert: called with a description of each file that is no command.
    """
    try:
        waiting = sorted(folder.commands.glob("[!.]*.json"), key=lambda path: path.stat().st_mtime)
    except OSError:
        return []
    commands = []
    for path in waiting:
        try:
            with path.open("rb") as file:
                values = parse_json(file.read(MAX_COMMAND_BYTES).decode("utf-8"))
            commands.append(SessionCommand(**values))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            alert(f"{path.name} is no command: {error}")
        path.unlink(missing_ok=True)
    return commands
