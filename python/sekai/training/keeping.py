"""What is kept of an agent, and how it comes back."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from sekai.error import SekaiError
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.spaces import Space
from sekai.storage.space_size import SPACE_NUMBERS, check_space, space_numbers
from sekai.training.agent_settings import AgentSettings
from sekai.training.gathering import WindowGather
from sekai.training.kept_file import ModelFileError, read_file
from sekai.training.trained_policy import Chooser
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = [
    "described",
    "env_of",
    "load_network",
    "network_of",
    "read_agent",
    "require_functions",
    "settings_of",
    "space_of",
    "spec_json",
    "windows_of",
]

Kind = TypeVar("Kind", bound=AgentSettings)

LARGEST_COUNTS = {"num_envs": 2**17, "rollout_steps": 2**20, "memory": 2**27, "threads": 2**10}
"""Settings that decide how much memory or how many threads an agent takes, and their bounds."""

LARGEST_ROLLOUT = 2**32
"""Numbers in a rollout or a replay buffer that a file can ask for."""

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
        "windows": None if agent.gather is None else list(agent.gather.shape),
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
    except ValueError:
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
    missing = sorted(FIELDS.keys() - content.keys())
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(missing)}: it is no saved agent")
    for name, kind in FIELDS.items():
        found = content[name]
        if not isinstance(found, kind) or isinstance(found, bool):
            raise ModelFileError(f"{path}: {name} must be {kind.__name__}, was {found!r:.80}")
    kept_by = content["algorithm"]
    if algorithm is not None and kept_by != algorithm:
        raise ModelFileError(
            f"{path} holds {kept_by!r:.80}, and {algorithm} was wanted: use the class it names"
        )
    return content


def require_functions(content: Mapping[str, Any], given: Mapping[str, Any], path: Any) -> None:
    """Raise unless the user has given again what the file can only name, never import."""
    training = content.get("training", {})
    functions = training.get("functions", {}) if isinstance(training, Mapping) else None
    if not isinstance(functions, Mapping):
        raise ModelFileError(f"{path}: what is kept of the training is damaged")
    for name in functions.keys() - given.keys():
        raise ModelFileError(
            f"{path} was trained with {name}={functions[name]!r:.80}: pass {name}=..., or "
            f"{name}=None to go on without"
        )


FIELDS: dict[str, type] = {
    "algorithm": str,
    "settings": dict,
    "seed": int,
    "steps": int,
    "network": dict,
    "observation_space": dict,
    "action_space": dict,
}
"""What every saved agent has, beside what is only for the record."""


def settings_of(content: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """The settings that were kept, of a size that can be meant."""
    try:
        settings = kind.from_dict(content["settings"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"settings cannot be read: {error}") from error
    for name, most in LARGEST_COUNTS.items():
        count = getattr(settings, name, 1)
        if count > most:
            raise ModelFileError(f"{name} must be at most {most}, the file has {count}")
    _check_rows(content, settings)
    return settings


def _check_rows(content: Mapping[str, Any], settings: AgentSettings) -> None:
    """Raise unless what the agent collects before it learns fits a stated amount of memory."""
    steps = settings.num_envs * getattr(settings, "rollout_steps", 1)
    try:
        row = sum(space_numbers(content[name]) for name in ("observation_space", "action_space"))
    except (KeyError, ValueError) as error:
        raise ModelFileError(f"a space cannot be read: {error}") from error
    numbers = max(steps, getattr(settings, "memory", 1)) * (row + 1)
    if numbers > LARGEST_ROLLOUT:
        raise ModelFileError(
            f"the file asks for a buffer of {numbers} numbers; expected at most {LARGEST_ROLLOUT}"
        )


def windows_of(content: Mapping[str, Any]) -> WindowGather | None:
    """What windows look like that are looked up; None where none are."""
    shape = content.get("windows")
    if shape is None:
        return None
    is_shape = isinstance(shape, list) and len(shape) == 3
    if not is_shape or not all(type(count) is int and count > 0 for count in shape):
        raise ModelFileError(f"windows must be three whole numbers above 0, the file has {shape}")
    if math.prod(shape) > SPACE_NUMBERS:
        raise ModelFileError(f"windows of {shape} numbers were wanted, which is too many")
    return WindowGather.without_data((shape[0], shape[1], shape[2]))


def space_of(content: Mapping[str, Any], name: str) -> Space[Any]:
    """A space that was kept."""
    try:
        check_space(content[name])
        return Space.from_jsonable(content[name])
    except Exception as error:
        raise ModelFileError(f"{name} cannot be read: {error}") from error


def env_of(content: Mapping[str, Any], path: Any) -> EnvSpec:
    """The spec in a file: an env that is registered here, with wrappers and arguments by name.

    Raises:
        ModelFileError: there is no spec, it cannot be read, or its env is not registered.
    """
    text = content.get("env")
    if text is None:
        raise ModelFileError(f"{path} does not say how to make its env: pass env=...")
    try:
        return EnvSpec.from_json(text)
    except (ValueError, SekaiError) as error:
        raise ModelFileError(
            f"{path}: the env cannot be read, or is not registered here ({error}): pass env=..."
        ) from error


def network_of(content: Mapping[str, Any], make: Callable[[], Chooser | None]) -> Chooser | None:
    """The network that `make` makes, with the weights that were kept.

    It is made without memory first, and compared: a file of little size cannot ask for much.
    """
    try:
        with torch.device("meta"):
            drawn = make()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"the network cannot be built: {error}") from error
    if drawn is None:
        return None
    kept = _acting(drawn, content["network"])
    _compare(drawn.state_dict(), kept)
    with torch.random.fork_rng(devices=[]):
        made = make()
    assert made is not None, "it was made a moment ago"
    made.load_state_dict(kept)
    return made


def _acting(network: Chooser, kept: Any) -> dict[str, Any]:
    """Of the weights that were kept, those that are needed to act."""
    if not isinstance(kept, Mapping):
        raise ModelFileError(f"weights by name were wanted, found {type(kept).__name__}")
    return {
        name: weights for name, weights in kept.items() if not name.startswith(network.for_learning)
    }


def load_network(network: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """Put weights back; a file of another shape changes nothing."""
    _compare(network.state_dict(), kept)
    network.load_state_dict(dict(kept))


def _compare(own: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    if not isinstance(kept, Mapping) or own.keys() != kept.keys():
        odd = sorted(own.keys() ^ set(kept))[:3]
        raise ModelFileError(f"the file is of another network: {', '.join(odd)} differ")
    for name, weights in own.items():
        found = kept[name]
        is_like = isinstance(found, torch.Tensor)
        if not is_like or found.shape != weights.shape or found.dtype != weights.dtype:
            shown = f"{tuple(found.shape)} {found.dtype}" if is_like else repr(type(found))
            raise ModelFileError(
                f"{name} needs {tuple(weights.shape)} {weights.dtype}, the file has {shown}"
            )
