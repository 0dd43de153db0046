"""Entry point of the `sekai` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

PACKAGES = ("typer", "rich", "click", "shellingham")
"""Packages of the extra `cli`."""

DEBUG = "--debug"
"""Option of the command as a whole, accepted in any position."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        arguments: command-line arguments; None for those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from sekai.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        sys.stderr.write(
            f"sekai: the command needs the package {error.name!r}; "
            "install it with pip install '.[cli]'\n"
        )
        return 1
    if DEBUG in words:
        words = [DEBUG, *(word for word in words if word != DEBUG)]
    try:
        app(words, prog_name="sekai")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
