"""A Ray cluster: one that runs, or one of our own on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sekai.error import MissingExtraError

__all__ = ["answered", "connected", "cores_of", "ray_module"]

OWN = "local"
"""How Ray is told to start a cluster, whatever others run on this machine."""


def ray_module() -> Any:
    """Ray, which only those need who ask for it."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtraError.of("ray", "ray", "engine='ray'") from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected to a cluster while this is entered; what we have started is stopped then.

    Args:
        address: of a cluster that runs; None for the one that this process is connected to, or that
            RAY_ADDRESS names, or else one of our own.
        workers: who must find room in one of our own; None for as many as there are cores.
    """
    ray = ray_module()
    if ray.is_initialized():
        # Whoever has connected this process says to which cluster, and disconnects it.
        _check_address(ray, address)
        yield ray
        return
    ray.init(**_options(address, workers))
    try:
        yield ray
    finally:
        ray.shutdown()


def answered(ray: Any, answer: Any) -> Any:
    """What a process answered; what it raised is raised here as it would be without it."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


def cores_of(ray: Any) -> int:
    """How many cores the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _check_address(ray: Any, address: str | None) -> None:
    found = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", found):
        raise ValueError(
            f"address={address!r} was wanted, and this process is connected to {found!r}: call "
            "ray.shutdown() first, or leave address out"
        )


def _options(address: str | None, workers: int | None) -> dict[str, Any]:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    known = address or os.environ.get("RAY_ADDRESS") or OWN
    if known != OWN:
        return {"address": known, **quiet}
    # Processes may be more than cores: they wait for each other, and nobody waits for room.
    room = max(workers or 1, os.cpu_count() or 1)
    return {"address": OWN, "num_cpus": room, "include_dashboard": False, **quiet}
