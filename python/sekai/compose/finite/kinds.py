"""Where the workers of a finite vector env run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from sekai.compose.finite.vector_env import FiniteVectorEnv
from sekai.compose.logs.writer import LogWriter
from sekai.vector import PipeVecEnv, ProcVecEnv, SyncVecEnv
from sekai.vector.group import EnvFactory

__all__ = ["FiniteDummyVectorEnv", "FiniteShmemVectorEnv", "FiniteSubprocVectorEnv"]


class FiniteDummyVectorEnv(FiniteVectorEnv):
    """Workers that take turns in this process."""

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        logger: LogWriter | list[LogWriter] | None = None,
    ) -> None:
        """Build the envs.

        Args:
            env_fns: functions that build one env each.
            logger: a writer, or several, that hear of all episodes.
        """
        rebuild = partial(SyncVecEnv, env_fns, autoreset="disabled")
        super().__init__(rebuild(), logger, rebuild=rebuild)


class _Processes(FiniteVectorEnv):
    """Workers with a process each."""

    vector: ClassVar[type[ProcVecEnv]]

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        logger: LogWriter | list[LogWriter] | None = None,
        *,
        start_method: str | None = None,
        step_timeout: float | None = 300.0,
    ) -> None:
        """Begin the processes, which build the envs.

        Args:
            env_fns: functions that build one env each; closures may cross too, by cloudpickle.
            logger: a writer, or several, that hear of all episodes, in this process.
            start_method: how processes begin; see `sekai.vector.ProcVecEnv`.
            step_timeout: seconds a worker may take for anything it is asked; None waits for ever.
        """
        rebuild = partial(
            self.vector,
            env_fns,
            num_workers=len(env_fns),
            start_method=start_method,
            step_timeout=step_timeout,
            autoreset="disabled",
        )
        super().__init__(rebuild(), logger, rebuild=rebuild)


class FiniteSubprocVectorEnv(_Processes):
    """Workers with a process each, which send what they see through pipes."""

    vector = PipeVecEnv


class FiniteShmemVectorEnv(_Processes):
    """Workers with a process each, which put what they see into shared memory."""

    vector = ProcVecEnv
