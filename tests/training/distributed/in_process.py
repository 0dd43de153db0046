"""What Ray does for workers, in this process: quick, and with the same words."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from sekai.vector.wire import Portable


class LostError(Exception):
    """The worker has died."""


def sent(value: Any) -> Any:
    """A value as another process gets it."""
    return pickle.loads(pickle.dumps(Portable(value))).value


class Handle:
    """A worker, of which it can be said after how many calls it dies."""

    def __init__(self, kind: type) -> None:
        self.worker, self.calls = kind(), []  # type: ignore[var-annotated]
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self._answer(name, given))

    def _answer(self, name: str, given: tuple[Any, ...]) -> Callable[[], Any]:
        self.calls.append(name)
        found: list[Any] = []
        if not self.is_dead:
            try:
                found.append(sent(getattr(self.worker, name)(*sent(given))))
            except Exception as error:
                found.append(TaskError(error))

        def get() -> Any:
            if not found or self.is_dead:
                raise LostError("killed")
            if isinstance(found[0], TaskError):
                raise found[0]
            return found[0]

        return get


class TaskError(Exception):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class InProcess:
    """As much of Ray as a crew needs."""

    def __init__(self) -> None:
        self.hired: list[Handle] = []
        self.before_answer: Callable[[InProcess], None] = lambda ray: None
        self.exceptions = SimpleNamespace(
            RayActorError=LostError, ObjectLostError=LostError, WorkerCrashedError=LostError,
            OutOfMemoryError=LostError, RayTaskError=TaskError, RayError=LostError,
        )  # fmt: skip

    def remote(self, **options: Any) -> Any:
        def made(kind: type) -> Any:
            return SimpleNamespace(remote=lambda: self._hire(kind))

        return made

    def _hire(self, kind: type) -> Handle:
        self.hired.append(Handle(kind))
        return self.hired[-1]

    @staticmethod
    def put(value: Any) -> Any:
        return value

    def get(self, answer: Callable[[], Any]) -> Any:
        self.before_answer(self)
        return answer()

    @staticmethod
    def wait(answers: list[Any], **options: Any) -> tuple[list[Any], list[Any]]:
        return answers, []

    @staticmethod
    def kill(handle: Handle) -> None:
        handle.is_dead = True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    @contextmanager
    def connected(self, address: str | None, workers: int | None) -> Iterator[InProcess]:
        yield self
