"""Where the envs of an agent act."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["EngineName", "check_engine", "crew_of"]

EngineName: TypeAlias = Literal["local", "ray"]
"""In this process, or in workers of a Ray cluster."""


def crew_of(
    agent: Agent, engine: EngineName, workers: int | None, address: str | None
) -> AbstractContextManager[Any]:
    """Who lets the envs act while it is entered; nobody else, where that is this process."""
    check_engine(engine, workers, address)
    if engine == "local":
        return nullcontext()
    from sekai.training.distributed.crew import Crew

    return Crew(agent, workers, address)


def check_engine(engine: EngineName, workers: int | None, address: str | None) -> None:
    """Raise `ValueError` unless these belong together."""
    if engine not in get_args(EngineName):
        raise ValueError(f"engine must be one of {get_args(EngineName)}, was {engine!r}")
    for name, value in (("workers", workers), ("address", address)):
        if engine == "local" and value is not None:
            raise ValueError(f"{name} belongs to engine='ray', found {name}={value!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, was {workers}")
