"""An env that was named on the command line: by its id, or by where its class is."""

from __future__ import annotations

from typing import Any

from sekai.cli.failure import CommandError
from sekai.cli.user_modules import look_in_working_folder
from sekai.registry import make
from sekai.registry.entry_point import load

__all__ = ["made_env"]


def made_env(name: str) -> Any:
    """The env of an id, or of a class or function `module:Class` that takes no arguments."""
    if ":" not in name:
        return make(name)
    here = look_in_working_folder()
    try:
        entry = load(name)
    except (ImportError, ValueError) as error:
        raise CommandError(
            f"{error}: module:Class is looked for in {here} and among installed packages"
        ) from error
    if not callable(entry):
        raise CommandError(f"{name} must be a class or a function that makes an env, was {entry!r}")
    return entry()
