"""Modules of the user: imported because the user named them, never because a run folder does."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from sekai.cli.failure import CommandError

__all__ = ["MODULE", "ImportOption", "import_modules", "look_in_working_folder"]

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A module of yours that registers envs, features or kinds; can be given again.",
    ),
]


def import_modules(names: Iterable[str]) -> None:
    """Import modules of the working folder or of installed packages.

    Raises:
        CommandError: a name is malformed, or there is no such module.
    """
    for name in names:
        if MODULE.fullmatch(name) is None:
            raise CommandError(f"malformed module name {name!r:.80}; expected package.module")
        here = look_in_working_folder()
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            # A module that exists and lacks something else tells its own story.
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise CommandError(
                f"there is no module {name!r}; expected one in {here} or an installed package"
            ) from error


def look_in_working_folder() -> str:
    """Let files of the working folder be imported, as `python -m` has it, and return its path."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return here
