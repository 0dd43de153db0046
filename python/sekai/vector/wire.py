"""The messages between a vector env and its worker processes.

Requests are numbered. Steps, the most frequent ones, are asked for in shared memory; all others
in a message of one byte that numbers the request, one that says its kind, and what belongs to it.
An answer bears the number of its request, so that the late answer to a request which the caller
gave up (by Ctrl-C, say) is not taken for the answer to the next one.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from sekai.error import WorkerError

__all__ = [
    "DONE",
    "FAULT",
    "REQUEST",
    "STEP",
    "VALUE",
    "Portable",
    "RemoteTraceback",
    "dumps",
    "error_from",
    "portable_error",
    "short_number",
]

STEP = b"s"
"""Step all envs; one byte names the slot for the result. It is not sent, but put into memory."""
REQUEST = b"r"
"""Do what the pickled (method, arguments) say."""
DONE = b"d"
"""It is done and there is nothing more to say."""
VALUE = b"v"
"""It is done and this, pickled, is what came of it."""
FAULT = b"f"
"""It failed with this, pickled, error."""


def short_number(count: int) -> int:
    """The number of the `count`-th request as messages bear it; 0 is a worker's greeting."""
    return count % 255 + 1


class Portable:
    """A value that crosses to another process by cloudpickle: closures and local classes do too."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> bytes:
        import cloudpickle  # type: ignore[import-untyped]

        pickled: bytes = cloudpickle.dumps(self.value)
        return pickled

    def __setstate__(self, pickled: bytes) -> None:
        self.value = pickle.loads(pickled)


def dumps(value: Any) -> bytes:
    """Pickle a value, with cloudpickle if pickle alone cannot."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickle raises whatever the value's own methods raise
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(value)
        return pickled


class RemoteTraceback(Exception):  # noqa: N818 - it is shown, never caught
    """Where an error began, in another process or thread."""

    def __init__(self, text: str, where: str = "in a worker process") -> None:
        super().__init__(text, where)

    def __str__(self) -> str:
        text, where = self.args
        return f"{where}\n\n{text}"


def portable_error(error: BaseException) -> tuple[BaseException, BaseException | None, str]:
    """An error, its cause and its traceback as another process can read them."""
    cause = error.__cause__ if _survives(error.__cause__) else None
    text = "".join(traceback.format_exception(error.__cause__ or error))
    if _survives(error):
        return error, cause, text
    return WorkerError(f"{type(error).__name__}: {error}", remote_traceback=text), cause, text


def error_from(pickled: bytes) -> BaseException:
    """The error that `portable_error` has told, with where it began in the chain of its causes."""
    error: BaseException
    error, cause, text = pickle.loads(pickled)
    # Python shows the chain of causes: where it began, what it was, which env it befell.
    error.__cause__ = cause if cause is not None else RemoteTraceback(text)
    if cause is not None:
        cause.__cause__ = RemoteTraceback(text)
    return error


def _survives(error: BaseException | None) -> bool:
    """Whether an error can be pickled and, less obviously, read back."""
    try:
        pickle.loads(dumps(error))
    except Exception:
        return False
    return True
