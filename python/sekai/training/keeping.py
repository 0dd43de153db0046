"""What is kept of an agent, and how it comes back."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.spaces import Space
from sekai.training.kept_file import ModelFileError, read_file
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["described", "load_network", "read_agent", "spec_json"]

PACKAGES = ("sekai", "torch", "torchrl", "tensordict", "numpy")


def described(agent: Agent) -> dict[str, Any]:
    """Everything needed to act as the agent does."""
    return {
        "algorithm": type(agent).__name__,
        "settings": agent.settings.to_dict(),
        "seed": agent.seed,
        "steps": agent.steps,
        "env": spec_json(agent),
        "observation_space": agent.vec.observation_space.to_jsonable(),
        "action_space": agent.vec.action_space.to_jsonable(),
        "data": data_digest(agent.vec),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "network": dict(agent.network.state_dict()),
    }


def spec_json(agent: Agent) -> str | None:
    """The env with its options and wrappers as JSON; None where it cannot be written so."""
    given = agent.env_given
    if isinstance(given, str):
        given = spec_of(given)
    if not isinstance(given, EnvSpec):
        return None
    from dataclasses import replace

    try:
        return replace(given, kwargs={**given.kwargs, **agent.env_options}).to_json()
    except (TypeError, ValueError):
        # Data in memory, for example: the digest says which.
        return None


def data_digest(vec: VecEnv) -> str | None:
    """What tells the data that the envs run on from other data, if they run on any."""
    # Several agents are in a vector env of their own, around that of their worlds.
    inner = getattr(getattr(vec, "inner", None), "vec", vec)
    data = getattr(getattr(inner, "batch", None), "data", None)
    digest: str | None = getattr(data, "digest", None)
    return digest


def read_agent(path: str | os.PathLike[str], algorithm: str | None = None) -> dict[str, Any]:
    """What was kept, checked to be an agent of the algorithm."""
    content = read_file(path)
    wanted = {"algorithm", "settings", "seed", "steps", "network", "observation_space"}
    missing = sorted(wanted - content.keys())
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}: it is no saved agent")
    found = content["algorithm"]
    if algorithm is not None and found != algorithm:
        raise ModelFileError(f"{path} holds {found}, and {algorithm} was wanted: use {found}.load")
    return content


def space_of(content: Mapping[str, Any], name: str) -> Space[Any]:
    """A space that was kept."""
    try:
        return Space.from_jsonable(content[name])
    except Exception as error:
        raise ModelFileError(f"{name} cannot be read: {error}") from error


def load_network(network: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """Put weights back; a file of another shape changes nothing."""
    own = network.state_dict()
    if not isinstance(kept, Mapping) or own.keys() != kept.keys():
        odd = sorted(own.keys() ^ set(kept))[:3]
        raise ModelFileError(f"the file is of another network: {', '.join(odd)} differ")
    for name, weights in own.items():
        found = kept[name]
        is_like = isinstance(found, torch.Tensor) and found.shape == weights.shape
        if not is_like or found.dtype != weights.dtype:
            shown = f"{tuple(found.shape)} {found.dtype}" if is_like else repr(type(found))
            raise ModelFileError(
                f"{name} needs {tuple(weights.shape)} {weights.dtype}, the file has {shown}"
            )
    network.load_state_dict(dict(kept))
