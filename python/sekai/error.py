"""Everything that sekai raises on purpose: one base, few children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BrokerError",
    "BusyError",
    "ClosedError",
    "DataError",
    "DuplicateEnvError",
    "FeedEndedError",
    "FeedError",
    "InvalidActionError",
    "JournalError",
    "MissingExtraError",
    "NamespaceError",
    "NotFittedError",
    "NotReadyError",
    "OrderError",
    "ResetRequired",
    "SekaiError",
    "SpaceError",
    "StateError",
    "UnknownEnvError",
    "WorkerError",
]


class SekaiError(Exception):
    """Base of every error that sekai raises on purpose."""


class ResetRequired(SekaiError, RuntimeError):  # noqa: N818 - the name is part of the contract
    """`step()` was called before `reset()`, or after the episode had ended."""


class ClosedError(SekaiError, RuntimeError):
    """An env, vector env or renderer was used after `close()`."""


class BusyError(SekaiError, RuntimeError):
    """A vector env was asked for something while a call to it was under way; nothing has moved."""


class InvalidActionError(SekaiError, ValueError):
    """An action does not belong to the action space; nothing has moved."""


class SpaceError(SekaiError, ValueError):
    """Spaces disagree, or a value does not fit the space it was given to."""


class StateError(SekaiError, ValueError):
    """A state cannot be taken or loaded; the object is as it was before."""


class NotFittedError(SekaiError, RuntimeError):
    """Something that learns from data was used before `fit()`."""


class NotReadyError(SekaiError, RuntimeError):
    """A step needs data that has not come yet; nothing has moved."""


class FeedError(SekaiError, RuntimeError):
    """A feed cannot go on, or sent what cannot be read."""


class FeedEndedError(FeedError):
    """A feed has come to its end."""


class BrokerError(SekaiError, RuntimeError):
    """A broker could not be reached or did not answer: nobody knows whether it acted."""


class JournalError(SekaiError, RuntimeError):
    """A journal cannot be written or read; what was written before is still whole."""


class OrderError(SekaiError, ValueError):
    """A book refused an operation, or cannot read it; nothing has moved."""

    def __init__(self, message: str, status: int | None = None, row: int | None = None) -> None:
        """Say what was wanted and found.

        Args:
            message: what was wanted and what was found.
            status: the reason by its number in `sekai.market.Status`, if it is the book's.
            row: the row at fault, if the operation was one of a batch.
        """
        super().__init__(message)
        self.status = status
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)


class DataError(SekaiError, ValueError):
    """Data are not what they should be; nothing was made of them."""

    def __init__(self, message: str, problems: Sequence[Any] = ()) -> None:
        """Say what is wrong, and keep all of it.

        Args:
            message: the first problems, and what can be done.
            problems: every `sekai.data.Problem`.
        """
        super().__init__(message)
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)


class UnknownEnvError(SekaiError, LookupError):
    """No environment is registered under the id."""


class DuplicateEnvError(SekaiError, ValueError):
    """The id is registered already and `force=True` was not given."""


class NamespaceError(SekaiError, ImportError):
    """A namespace's loader failed; its own error is the cause."""


class MissingExtraError(SekaiError, ImportError):
    """An optional package is needed and not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtraError:
        """The error that names the missing `package` and the `extra` which brings it."""
        return cls(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"pip install 'sekai[{extra}]'"
        )


class WorkerError(SekaiError, RuntimeError):
    """A sub-environment of a vector env failed, hung or died."""

    def __init__(
        self,
        message: str,
        *,
        env_index: int | None = None,
        seed: int | None = None,
        last_action: Any = None,
        exit_code: int | None = None,
        remote_traceback: str | None = None,
    ) -> None:
        """Say what happened, and keep what is needed to look into it.

        Args:
            message: what was wanted and what was found.
            env_index: the env at fault.
            seed: the seed with which that env was last reset.
            last_action: the action that it was given.
            exit_code: how its process ended, if it did; negative for a signal.
            remote_traceback: where in its process the env raised.
        """
        super().__init__(message)
        self.env_index = env_index
        self.seed = seed
        self.last_action = last_action
        self.exit_code = exit_code
        self.remote_traceback = remote_traceback

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are pickled by their positional arguments alone unless told otherwise.
        return type(self), self.args, vars(self)
