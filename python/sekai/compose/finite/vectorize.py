"""Makes a finite vector env of one factory."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sekai.compose.finite.kinds import (
    FiniteDummyVectorEnv,
    FiniteShmemVectorEnv,
    FiniteSubprocVectorEnv,
)
from sekai.compose.finite.vector_env import FiniteVectorEnv
from sekai.compose.logs.writer import LogWriter
from sekai.error import SekaiError
from sekai.vector.group import EnvFactory

__all__ = ["UnknownEnvTypeError", "vectorize_env"]

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
    """There is no finite vector env of that type."""

    # A KeyError shows its words in quotation marks.
    __str__ = Exception.__str__


def vectorize_env(
    env_factory: EnvFactory,
    env_type: str,
    concurrency: int | None = None,
    logger: LogWriter | list[LogWriter] | None = None,
) -> FiniteVectorEnv:
    """A finite vector env whose workers are all made by one factory.

    Args:
        env_factory: builds the env of one worker; it is called once for each, in the worker's
            own process if it has one. Build the interpreters, rewards and collectors inside the
            factory, so that no two workers share one; share the seeds, in a `DataQueue`.
        env_type: "dummy" (all in this process), "subproc" (a process each, observations through
            pipes) or "shmem" (a process each, observations through shared memory).
        concurrency: how many workers; None takes three quarters of the cores.
        logger: a writer, a list of writers, or None.
    """
    if env_type not in ENV_TYPES:
        raise UnknownEnvTypeError(
            f"env_type must be one of {', '.join(map(repr, ENV_TYPES))}; was {env_type!r}"
        )
    if not callable(env_factory):
        raise TypeError(f"env_factory must be a function that builds an env, was {env_factory!r}")
    env: FiniteVectorEnv = ENV_TYPES[env_type]([env_factory] * _workers(concurrency), logger)
    if isinstance(env, FiniteDummyVectorEnv):
        _warn_of_sharing(env)
    return env


def _workers(concurrency: int | None) -> int:
    if concurrency is None:
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return max(1, int(SHARE_OF_CORES * cores))
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency must be at least 1 worker, was {concurrency!r}")
    return concurrency


def _warn_of_sharing(env: FiniteDummyVectorEnv) -> None:
    envs = env.get_attr("unwrapped")
    for name in COMPONENTS:
        parts = [part for one in envs if (part := getattr(one, name, None)) is not None]
        if len({id(part) for part in parts}) < len(parts):
            warnings.warn(
                f"workers of this vector env share their {name}, a "
                f"{type(parts[0]).__name__}: what it keeps of one episode shows in another; "
                f"build it inside of env_factory",
                UserWarning,
                stacklevel=3,
            )
