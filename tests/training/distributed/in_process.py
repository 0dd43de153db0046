"""What Ray does for workers, in this process: quick, and with the same words."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import cloudpickle  # type: ignore[import-untyped]


class LostError(Exception):
    """The worker has died."""


class TaskError(Exception):
    """A worker has raised."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def sent(value: Any) -> Any:
    """A value as another process gets it: its arrays lie in memory that nobody may change."""
    buffers: list[pickle.PickleBuffer] = []
    data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


class Handle:
    """A worker whose process may be lost."""

    def __init__(self, kind: type, is_lost: Callable[[Handle, str], bool]) -> None:
        self.worker, self.is_lost = kind(), is_lost
        self.calls: list[str] = []
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self._answer(name, given))

    def _answer(self, name: str, given: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        if self.is_dead:
            return LostError("it was killed")
        try:
            found = sent(getattr(self.worker, name)(*sent(given)))
        except Exception as error:
            found = TaskError(error)
        # What a worker did before it was lost is lost with it.
        self.is_dead = self.is_lost(self, name)
        return LostError("it was killed") if self.is_dead else found


class InProcess:
    """As much of Ray as a crew needs."""

    def __init__(self) -> None:
        self.hired: list[Handle] = []
        self.is_lost: Callable[[Handle, str], bool] = lambda handle, name: False
        self.exceptions = SimpleNamespace(
            RayActorError=LostError,
            ObjectLostError=LostError,
            WorkerCrashedError=LostError,
            OutOfMemoryError=LostError,
            RayTaskError=TaskError,
            RayError=LostError,
        )

    def remote(self, **options: Any) -> Any:
        def made(kind: type) -> Any:
            return SimpleNamespace(remote=lambda: self._hire(kind))

        return made

    def _hire(self, kind: type) -> Handle:
        self.hired.append(Handle(kind, lambda handle, name: self.is_lost(handle, name)))
        return self.hired[-1]

    @staticmethod
    def put(value: Any) -> Any:
        return value

    @staticmethod
    def get(answer: Any) -> Any:
        if isinstance(answer, (LostError, TaskError)):
            raise answer
        return answer

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
