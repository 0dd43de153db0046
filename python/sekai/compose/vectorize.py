"""Kinds of finite vector envs, and `vectorize_env` to make one of a factory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from sekai.compose.finite_vector_env import FiniteVectorEnv
from sekai.compose.logs.writer import LogWriter
from sekai.error import SekaiError
from sekai.vector import PipeVecEnv, ProcVecEnv, SyncVecEnv
from sekai.vector.group import EnvFactory

__all__ = [
    "FiniteDummyVectorEnv",
    "FiniteShmemVectorEnv",
    "FiniteSubprocVectorEnv",
    "UnknownEnvTypeError",
    "vectorize_env",
]


class FiniteDummyVectorEnv(FiniteVectorEnv):
    """Finite vector env in this process.

    Args:
        env_fns: functions that build one env each.
        logger: writer, or list of writers, of all episodes.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        logger: LogWriter | list[LogWriter] | None = None,
    ) -> None:
        rebuild = partial(SyncVecEnv, env_fns, autoreset="disabled")
        super().__init__(rebuild(), logger, rebuild=rebuild)


class _Processes(FiniteVectorEnv):
    """Finite vector env with a process per worker.

    Args:
        env_fns: functions that build one env each; closures are sent by cloudpickle.
        logger: writer, or list of writers, of all episodes, in this process.
        start_method: start method of processes; see `sekai.vector.ProcVecEnv`.
        step_timeout: seconds a worker may take for a call; None for no limit.
    """

    vector: ClassVar[type[ProcVecEnv]]

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        logger: LogWriter | list[LogWriter] | None = None,
        *,
        start_method: str | None = None,
        step_timeout: float | None = 300.0,
    ) -> None:
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
    """Finite vector env with a process per worker; observations through pipes."""

    vector = PipeVecEnv


class FiniteShmemVectorEnv(_Processes):
    """Finite vector env with a process per worker; observations in shared memory."""

    vector = ProcVecEnv


ENV_TYPES: dict[str, Any] = {
    "dummy": FiniteDummyVectorEnv,
    "subproc": FiniteSubprocVectorEnv,
    "shmem": FiniteShmemVectorEnv,
}

COMPONENTS = (
    "state_interpreter",
    "action_interpreter",
    "reward_fn",
    "aux_info_collector",
    "logger",
)

SHARE_OF_CORES = 0.75


class UnknownEnvTypeError(SekaiError, ValueError, KeyError):
    """Unknown type of finite vector env."""

    # A KeyError shows its message in quotation marks.
    __str__ = Exception.__str__


def vectorize_env(
    env_factory: EnvFactory,
    env_type: str,
    concurrency: int | None = None,
    logger: LogWriter | list[LogWriter] | None = None,
) -> FiniteVectorEnv:
    """Make a finite vector env whose workers are all made by one factory.

    Args:
        env_factory: builds the env of one worker; called once for each, in the worker's process
            if it has one. Build interpreters, rewards and collectors inside the factory, so that
            no two workers share one; share the seeds by a `DataQueue`.
        env_type: "dummy" (all in this process), "subproc" (a process each, observations through
            pipes) or "shmem" (a process each, observations through shared memory).
        concurrency: number of workers; None for three quarters of the cores.
        logger: a writer, a list of writers, or None.
    """
    if env_type not in ENV_TYPES:
        raise UnknownEnvTypeError(
            f"env_type must be one of {', '.join(map(repr, ENV_TYPES))}, got {env_type!r}"
        )
    if not callable(env_factory):
        raise TypeError(f"env_factory must be a function that builds an env, got {env_factory!r}")
    env: FiniteVectorEnv = ENV_TYPES[env_type]([env_factory] * _workers(concurrency), logger)
    if isinstance(env, FiniteDummyVectorEnv):
        _warn_about_sharing(env)
    return env


def _workers(concurrency: int | None) -> int:
    if concurrency is None:
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return max(1, int(SHARE_OF_CORES * cores))
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency must be an integer of at least 1, got {concurrency!r}")
    return concurrency


def _warn_about_sharing(vec: FiniteDummyVectorEnv) -> None:
    envs = vec.get_attr("unwrapped")
    for name in COMPONENTS:
        parts = [part for env in envs if (part := getattr(env, name, None)) is not None]
        if len({id(part) for part in parts}) < len(parts):
            warnings.warn(
                f"workers of this vector env share their {name}, a "
                f"{type(parts[0]).__name__}, so that its state leaks between episodes; build it "
                "inside env_factory",
                UserWarning,
                stacklevel=3,
            )
