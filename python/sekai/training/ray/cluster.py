"""Connection to a Ray cluster, and the choice of the rollout engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from sekai.error import WorkerError
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = [
    "EngineName",
    "answered",
    "check_engine",
    "connected",
    "cores_of",
    "ray_module",
    "rollout_engine",
]

OWN = "local"
"""Address that makes Ray start a new local cluster."""


def ray_module() -> Any:
    """Import Ray, an optional dependency."""
    optional_import("ray.exceptions", "ray", "A Ray cluster")
    return optional_import("ray", "ray", "A Ray cluster")


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Context with a connection to a cluster; a cluster that was started here is shut down.

    Args:
        address: address of a running cluster; None for the one that this process or RAY_ADDRESS
            is connected to, or else a new local one.
        workers: workers that a new cluster must hold; None for one per core.
    """
    ray = ray_module()
    if ray.is_initialized():
        # The program has connected this process, and disconnects it.
        _check_address(ray, address)
        yield ray
        return
    try:
        ray.init(**_options(address, workers))
    except ConnectionError as error:
        known = address or os.environ.get("RAY_ADDRESS")
        raise WorkerError(
            f"there is no Ray cluster at {known!r}: start one with `ray start --head`, or pass "
            f"{OWN!r} for a new one on this machine"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def answered(ray: Any, answer: Any) -> Any:
    """Result of a remote call; exceptions are raised as in a local one."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


def cores_of(ray: Any) -> int:
    """Number of cores of the cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _check_address(ray: Any, address: str | None) -> None:
    connected = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", connected):
        raise ValueError(
            f"this process is connected to {connected!r}, not to address={address!r}: call "
            "ray.shutdown() first, or leave address out"
        )


def _options(address: str | None, workers: int | None) -> dict[str, Any]:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    known = address or os.environ.get("RAY_ADDRESS") or OWN
    if known != OWN:
        return {"address": known, **quiet}
    # More workers than cores are allowed: none waits for resources.
    room = max(workers or 1, os.cpu_count() or 1)
    return {"address": OWN, "num_cpus": room, "include_dashboard": False, **quiet}


EngineName: TypeAlias = Literal["local", "ray"]
"""Run envs in this process, or in workers of a Ray cluster."""


def rollout_engine(
    agent: Agent, engine: EngineName, workers: int | None, address: str | None
) -> AbstractContextManager[Any]:
    """Context that runs the envs of an agent in workers; does nothing for "local"."""
    check_engine(engine, workers, address)
    if engine == "local":
        return nullcontext()
    if agent.device.type != "cpu":
        raise ValueError(
            f"engine='ray' acts on the CPU of its workers, bit for bit as the agent; got "
            f"device={str(agent.device)!r}, use device='cpu' or engine='local'"
        )
    from sekai.training.ray.remote_rollouts import RemoteRollouts

    return RemoteRollouts(agent, workers, address)


def check_engine(engine: EngineName, workers: int | None, address: str | None) -> None:
    """Raise `ValueError` for invalid combinations of engine options."""
    if engine not in get_args(EngineName):
        raise ValueError(f"engine must be one of {get_args(EngineName)}, got {engine!r}")
    for name, value in (("workers", workers), ("address", address)):
        if engine == "local" and value is not None:
            raise ValueError(f"{name} needs engine='ray', got {name}={value!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
