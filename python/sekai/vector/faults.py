"""What becomes of an env that fails: an error that names it, or the same env built anew."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sekai.error import SpaceError, WorkerError
from sekai.vector.batching import Batcher

__all__ = ["RESTART", "OnError", "Restart", "checked_on_error", "failure", "reason_of", "unfit"]

OnError: TypeAlias = Literal["raise", "restart"]
"""`raise`: a `WorkerError` is raised and the vector closes. `restart`: the failed env is built
anew and seeded from its own stream; its episode counts as truncated at the last observation, and
its info has a `Restart` under "restart". No other env is disturbed."""

RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Restart:
    """An env came back after it had failed."""

    reason: str
    """What had happened."""

    seed: int | None
    """The seed it came back with; None if it never had one."""

    restarts: int
    """How often it has come back so far."""


def checked_on_error(on_error: str) -> OnError:
    """The choice, or a `ValueError` that names the two there are."""
    for choice in get_args(OnError):
        if choice == on_error:
            return choice  # type: ignore[no-any-return]
    raise ValueError(f"on_error must be one of {get_args(OnError)}, was {on_error!r}")


def failure(
    error: Exception, doing: str, env_index: int, seed: int | None, action: Any = None
) -> WorkerError:
    """The `WorkerError` for an exception that env `env_index` raised while `doing` something."""
    told = WorkerError(
        f"env {env_index} (seed {seed}) raised {reason_of(error)} in {doing}",
        env_index=env_index,
        seed=seed,
        last_action=action,
        remote_traceback="".join(traceback.format_exception(error)),
    )
    told.__cause__ = error
    return told


def unfit(batcher: Batcher, samples: Sequence[Any], indices: Sequence[int]) -> WorkerError:
    """The `WorkerError` for observations that do not fit the observation space."""
    for index, sample in zip(indices, samples, strict=True):
        try:
            batcher.copied(sample)
        except SpaceError as error:  # noqa: PERF203 - only on the way to an error
            told = WorkerError(
                f"env {index} returned an observation that is not of its space: {error}",
                env_index=index,
            )
            told.__cause__ = error
            return told
    raise AssertionError("each observation fits by itself, so all of them do")


def reason_of(error: BaseException) -> str:
    """The kind and the words of an error, in one line."""
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
