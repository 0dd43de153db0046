"""Where the `sekai` command begins."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

PACKAGES = ("typer", "rich", "click", "shellingham")
"""What the extra `cli` brings."""

ANYWHERE = "--debug"
"""An option of the command as a whole, which may stand behind any of its parts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and tell how it went by an exit code.

    Args:
        arguments: what was typed behind `sekai`; None for those of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from sekai.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        sys.stderr.write(
            f"sekai: the command needs the package {error.name!r}, which is not installed: "
            "pip install 'sekai[cli]'\n"
        )
        return 1
    if ANYWHERE in given:
        given = [ANYWHERE, *(one for one in given if one != ANYWHERE)]
    try:
        app(given, prog_name="sekai")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
