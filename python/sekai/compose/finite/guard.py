"""The block in which episodes are collected: it ends with the seeds, and leaves no worker."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from sekai.compose.finite.listeners import without_hiding

if TYPE_CHECKING:
    from sekai.compose.finite.vector_env import FiniteVectorEnv

__all__ = ["CollectorGuard"]


class CollectorGuard:
    """Collection of episodes: tells the writers when it begins and ends, and closes the workers.

    The `StopIteration` by which a finite vector env says that all seeds are used up ends the
    block; any other exception passes through it. After an orderly end the guard can be entered
    again, as long as there are seeds: workers are built anew and take the next ones.
    """

    def __init__(self, env: FiniteVectorEnv) -> None:
        self._env = env

    def __enter__(self) -> FiniteVectorEnv:
        self._env._begin_collection()
        try:
            self._env.listeners.all_ready()
        except BaseException:
            without_hiding(self._env.close, "workers did not close well")
            raise
        return self._env

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        env = self._env
        if error is not None and not isinstance(error, StopIteration):
            try:
                env.listeners.broken_off()
            finally:
                without_hiding(env.close, "workers did not close well")
            return False
        try:
            env.listeners.all_done()
            env._end_collection()
        finally:
            env._close_workers()
        return True
