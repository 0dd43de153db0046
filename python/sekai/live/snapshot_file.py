"""The state of an env in a file, so that not all of a journal has to be replayed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sekai.error import JournalError
from sekai.live.whole_file import replaced
from sekai.storage.codec import from_text, to_text
from sekai.storage.strict_json import parsed

__all__ = ["Snapshot", "check_state", "read_snapshot", "write_snapshot"]

FORMAT = "sekai snapshot 2"
LARGEST = 2**30
"""Bytes that are read at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A state, and where in the journal it was."""

    state: dict[str, Any]
    number: int
    """Of the first record that is not part of the state."""


def write_snapshot(path: str | os.PathLike[str], state: Mapping[str, Any], number: int) -> None:
    """Keep the state of an env; who is killed while writing leaves the old file.

    Args:
        path: the file.
        state: what `env.state_dict()` gave.
        number: of the first record of the journal that is not part of it.

    Raises:
        ValueError: there is something in the state that cannot be written.
        JournalError: it could not be written; the old file is as it was.
    """
    text = to_text(dict(state), "state")
    head = json.dumps({"format": FORMAT, "number": number, "digest": _digest(number, text)})
    try:
        replaced(Path(path), f"{head}\n{text}\n".encode("ascii"), wait=True)
    except OSError as error:
        raise JournalError(f"a snapshot cannot be written to {path}: {error}") from error


def check_state(state: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless a snapshot can hold the state of an env."""
    to_text(dict(state), "the state of the env")


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """The state that was kept. Without one, replay the journal from its start.

    Classes in it, such as the config of an env, are the built-in kinds of sekai and those that
    the program has registered with `sekai.registry.register_kind`; nothing is imported.

    Args:
        path: the file.

    Raises:
        JournalError: there is none, or it is not all that was written.
    """
    try:
        head, text = _parts(Path(path))
        number = head["number"]
        if head["format"] != FORMAT or type(number) is not int or number < 0:
            raise ValueError(f"expected the format {FORMAT!r}, got {head['format']!r:.40}")
        if head["digest"] != _digest(number, text):
            raise ValueError("its digest does not fit: it is half of it, or it was altered")
        state = from_text(text)
        if not isinstance(state, dict):
            raise ValueError(f"a state was wanted, found {type(state).__name__}")
    except Exception as error:
        # Classes that are built from what was found raise errors of their own.
        raise JournalError(f"{path} is not a snapshot that can be used: {error}") from error
    return Snapshot(state, number)


def _parts(path: Path) -> tuple[dict[str, Any], str]:
    if path.exists() and not path.is_file():
        raise ValueError("it is no plain file")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST or content[-1:] != b"\n":
        raise ValueError(f"it ends early, or after more than {LARGEST} bytes")
    head, _, text = content[:-1].decode("ascii").partition("\n")
    described = parsed(head)
    if not isinstance(described, dict):
        raise ValueError("its first line does not describe it")
    return described, text


def _digest(number: int, text: str) -> str:
    return blake2b(f"{number} {text}".encode("ascii"), digest_size=16).hexdigest()
