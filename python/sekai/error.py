"""Exceptions of sekai: one base class, few subclasses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BrokerError",
    "BusyError",
    "ClosedError",
    "DataError",
    "DataMismatchError",
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
    "UnknownOptionError",
    "WorkerError",
]


class SekaiError(Exception):
    """Base class of all exceptions that sekai raises."""


class UnknownOptionError(SekaiError, TypeError):
    """A keyword argument is not an option of a config or an env.

    Args:
        owner: the config or the env; or the whole message, without further arguments, as
            gymnasium raises errors of env constructors again.
        name: the keyword argument.
        known: names of all options.
        close: options that may be meant.
    """

    def __init__(
        self, owner: str, name: str = "", known: Sequence[str] = (), close: Sequence[str] = ()
    ) -> None:
        self.owner, self.name = owner, name
        self.known, self.close = tuple(known), tuple(close)
        if not name:
            super().__init__(owner)
            return
        hint = f"did you mean {' or '.join(map(repr, close))}?"
        expected = f"expected one of {', '.join(sorted(known))}" if known else "it takes none"
        super().__init__(f"{owner} has no option {name!r}; {hint if close else expected}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.owner, self.name, self.known, self.close)


class ResetRequired(SekaiError, RuntimeError):  # noqa: N818 - the name is part of the contract
    """`step()` was called before `reset()`, or after the end of an episode."""


class ClosedError(SekaiError, RuntimeError):
    """An env, vector env or renderer was used after `close()`."""


class BusyError(SekaiError, RuntimeError):
    """A vector env was called while another call was running; nothing has changed."""


class InvalidActionError(SekaiError, ValueError):
    """An action is not in the action space; the env was not stepped."""


class SpaceError(SekaiError, ValueError):
    """Spaces disagree, or a value is not in its space."""


class StateError(SekaiError, ValueError):
    """A state cannot be saved or loaded; the object is unchanged."""


class NotFittedError(SekaiError, RuntimeError):
    """A model or pipeline was used before `fit()`."""


class NotReadyError(SekaiError, RuntimeError):
    """A step needs data that has not arrived; the env was not stepped."""


class FeedError(SekaiError, RuntimeError):
    """A feed cannot continue, or sent unreadable data."""


class FeedEndedError(FeedError):
    """A feed has ended."""


class BrokerError(SekaiError, RuntimeError):
    """A broker could not be reached or did not answer: it is unknown whether it acted."""


class JournalError(SekaiError, RuntimeError):
    """A journal cannot be written or read; earlier records are intact."""


class OrderError(SekaiError, ValueError):
    """An order book rejected an operation or cannot read it; the book is unchanged.

    Args:
        message: the problem and the expectation.
        status: code of the reason in `sekai.market.Status`, if the book rejected it.
        row: index of the operation in its batch, if it was one of a batch.
    """

    def __init__(self, message: str, status: int | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)


class DataError(SekaiError, ValueError):
    """Invalid data; nothing was created from it.

    Args:
        message: the first problems and the remedy.
        problems: every `sekai.data.Problem`.
    """

    def __init__(self, message: str, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)


class DataMismatchError(SekaiError, ValueError):
    """A policy is used on other bars, features or assets than it was trained on."""


class UnknownEnvError(SekaiError, LookupError):
    """No environment is registered under the id."""


class DuplicateEnvError(SekaiError, ValueError):
    """The id is already registered and `force=True` was not passed."""


class NamespaceError(SekaiError, ImportError):
    """The loader of a namespace failed; its exception is the cause."""


class MissingExtraError(SekaiError, ImportError):
    """An optional package is required and not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtraError:
        """Return the error for a missing `package`, naming the `extra` that installs it, if any."""
        source = f"'.[{extra}]'" if extra else package
        return cls(
            f"{purpose} needs the package {package!r}, which is not installed: pip install {source}"
        )


class WorkerError(SekaiError, RuntimeError):
    """A sub-environment of a vector env raised, timed out or died.

    Args:
        message: the env and the problem.
        env_index: index of the failed env.
        seed: seed of its last reset.
        last_action: action of the failed step.
        exit_code: exit code of its process if that ended; negative for a signal.
        remote_traceback: traceback in the worker process.
    """

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
        super().__init__(message)
        self.env_index = env_index
        self.seed = seed
        self.last_action = last_action
        self.exit_code = exit_code
        self.remote_traceback = remote_traceback

    def __reduce__(self) -> tuple[Any, ...]:
        # By default exceptions are pickled by their positional arguments only.
        return type(self), self.args, vars(self)
