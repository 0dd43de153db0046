"""Errors of commands: one clear message, and an exit code for scripts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from sekai.cli.screen import complain, note
from sekai.config.toml_file import ConfigError
from sekai.error import SekaiError, UnknownEnvError
from sekai.experiment.run_folder import ExperimentError

FAILED = 1
"""Exit code: the command failed, or found a problem."""

MISUSED = 2
"""Exit code: invalid arguments or an invalid file."""

INTERRUPTED = 130
"""Exit code: interrupted from the keyboard or by SIGTERM."""

EXPECTED = (SekaiError, ValueError, OSError)
"""Errors whose message is meant for the user."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CommandError(SekaiError):
    """Invalid arguments of a command."""


class _Tracebacks:
    are_shown = False


def show_tracebacks(shown: bool) -> None:
    """Raise errors with their traceback instead of printing a message."""
    _Tracebacks.are_shown = shown


def guarded(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a command to end with a message and an exit code instead of an exception."""

    @functools.wraps(command)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            # Regular exits, and closed pipes: `sekai list | head`.
            raise
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if _Tracebacks.are_shown:
                raise
            complain(_message(error))
            misuse = (CommandError, ConfigError, ExperimentError, UnknownEnvError)
            raise typer.Exit(MISUSED if isinstance(error, misuse) else FAILED) from None

    return wrapper


def _message(error: Exception) -> str:
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"no permission for {error.filename}; change its permissions, or choose another path"
    if isinstance(error, EXPECTED):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error} (--debug shows the traceback)"
