"""What becomes of errors: one clear message, and a code that scripts can read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from sekai.cli.screen import complain, note
from sekai.error import SekaiError, UnknownEnvError

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "CommandError", "guarded", "show_tracebacks"]

FAILED = 1
"""Something failed, or was found wanting."""

MISUSED = 2
"""What was typed, or a file that was named, cannot be read as asked."""

INTERRUPTED = 130
"""It was stopped from the keyboard, or asked to end."""

EXPECTED = (SekaiError, ValueError, OSError)
"""Errors whose message is meant for the user."""

Given = ParamSpec("Given")
Back = TypeVar("Back")


class CommandError(SekaiError):
    """What was asked for cannot be done as it was asked."""


class _Tracebacks:
    are_shown = False


def show_tracebacks(is_wanted: bool) -> None:
    """Say whether errors are raised as they are, for who looks into them."""
    _Tracebacks.are_shown = is_wanted


def guarded(command: Callable[Given, Back]) -> Callable[Given, Back]:
    """The same command, which ends with a message and a code where it would raise."""

    @functools.wraps(command)
    def told(*given: Given.args, **named: Given.kwargs) -> Back:
        try:
            return command(*given, **named)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            # Ends that were meant, and readers that have gone: `sekai list | head`.
            raise
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if _Tracebacks.are_shown:
                raise
            complain(_message(error))
            is_misuse = isinstance(error, (CommandError, UnknownEnvError))
            raise typer.Exit(MISUSED if is_misuse else FAILED) from None

    return told


def _message(error: Exception) -> str:
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"{error.filename} is closed to you: change its permissions, or name another place"
    if isinstance(error, EXPECTED):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error} (--debug shows where)"
