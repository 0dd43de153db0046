"""Content of model files: settings, env and weights of an agent, validated on load."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sekai.error import SekaiError
from sekai.policy.files import ModelFileError, check_fields, read_arrays, write_arrays
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.storage.arrays import SPACE_NUMBERS, space_numbers
from sekai.storage.codec import ArrayStore
from sekai.training.agent_settings import AgentSettings
from sekai.training.observations import WindowGather
from sekai.training.replay_dataset import ReplayDataset
from sekai.training.trained_policy import PolicyNetwork
from sekai.training.training_envs import fixed_count
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.saving import SavableAgent

__all__ = [
    "agent_content",
    "env_of",
    "load_network",
    "network_of",
    "read_agent",
    "read_file",
    "require_functions",
    "settings_of",
    "windows_of",
    "write_file",
]


def write_file(path: str | os.PathLike[str], content: Mapping[str, Any]) -> Path:
    """Write a nested value with tensors atomically; see `write_arrays`."""
    return write_arrays(path, content, _store())


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the value of a model file with tensors; see `read_arrays`."""
    return read_arrays(path, _store())


def _store() -> ArrayStore:
    """Store of arrays and tensors beside the JSON."""
    return ArrayStore({}, _array_of, lambda array: torch.from_numpy(array.copy()))


def _array_of(value: Any) -> NDArray[Any] | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        array: NDArray[Any] = value.detach().cpu().numpy()
    except TypeError as error:
        raise ValueError(f"tensors of {value.dtype} cannot be converted to NumPy") from error
    return array


def read_agent(path: str | os.PathLike[str], algorithm: str | None = None) -> dict[str, Any]:
    """Read a model file and validate its fields and algorithm."""
    content = read_file(path)
    check_fields(content, path, algorithm)
    return content


Kind = TypeVar("Kind", bound=AgentSettings)

MAX_COUNTS = {
    "n_envs": 2**17,
    "n_steps": 2**20,
    "steps_per_iteration": 2**20,
    "buffer_size": 2**27,
    "threads": 2**10,
    "n_lstm_layers": 2**6,
    "lstm_hidden_size": 2**16,
}
"""Bounds of settings that determine memory and threads."""

MAX_BUFFER_NUMBERS = 2**32
"""Largest rollout or replay buffer of a model file, in numbers."""

PACKAGES = ("sekai", "torch", "numpy")


def agent_content(agent: SavableAgent) -> dict[str, Any]:
    """Content of a model file, without the training state."""
    signature = agent.data_signature
    return {
        "algorithm": type(agent).__name__,
        "settings": agent.settings.to_dict(),
        "seed": agent.seed,
        "steps": agent.steps,
        "env": spec_json(agent),
        "env_arguments": {
            "env": agent.env_name,
            "kind": _env_kind(agent.env_argument),
            "env_options": list(agent.env_options),
        },
        "observation_space": agent.observation_space.to_jsonable(),
        "action_space": agent.vec.action_space.to_jsonable(),
        "windows": None if agent.gather is None else list(agent.gather.shape),
        "data": data_digest(agent.vec),
        "data_signature": None if signature is None else signature.to_dict(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "network": dict(agent.network.state_dict()),
    }


def spec_json(agent: SavableAgent) -> str | None:
    """Env spec with options and wrappers as JSON; None if it cannot be serialized."""
    env = agent.env_argument
    if isinstance(env, str):
        env = spec_of(env)
    if not isinstance(env, EnvSpec):
        return None
    from dataclasses import replace

    try:
        return replace(env, kwargs={**env.kwargs, **agent.env_options}).to_json()
    except ValueError:
        # For example data in memory, which the digest identifies.
        return None


ENV_KINDS = {
    "class": "the class",
    "function": "the function",
    "instance": "an instance of",
    "dataset": "a data set of",
}
"""Kinds of envs without an id, in words."""


def _env_kind(env: Any) -> str:
    """Kind of the env that an agent was made with."""
    if isinstance(env, (str, EnvSpec)):
        return "id"
    if fixed_count(env) is not None:
        return "instance"
    if isinstance(env, ReplayDataset):
        return "dataset"
    return "class" if isinstance(env, type) else "function"


def data_digest(vec: VecEnv) -> str | None:
    """Digest of the market data of the envs, if they have any."""
    # Multi-agent vector envs wrap that of the worlds.
    inner = getattr(getattr(vec, "inner", None), "vec", vec)
    data = getattr(getattr(inner, "batch", None), "data", None)
    digest: str | None = getattr(data, "digest", None)
    return digest


def require_functions(content: Mapping[str, Any], passed: Mapping[str, Any], path: Any) -> None:
    """Raise unless functions that the file names were passed again; they are never imported."""
    training = content.get("training", {})
    functions = training.get("functions", {}) if isinstance(training, Mapping) else None
    if not isinstance(functions, Mapping):
        raise ModelFileError(f"{path}: the training state is damaged")
    for name in functions.keys() - passed.keys():
        raise ModelFileError(
            f"{path} was trained with {name}={functions[name]!r:.80}: pass {name}=..., or "
            f"{name}=None to go on without"
        )


def settings_of(content: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """Settings of a model file, within bounds."""
    try:
        settings = kind.from_dict(content["settings"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"invalid settings: {error}") from error
    for name, most in MAX_COUNTS.items():
        count = getattr(settings, name, 1)
        if count > most:
            raise ModelFileError(f"{name} must be at most {most}, the file has {count}")
    _check_rows(content, settings)
    return settings


def _check_rows(content: Mapping[str, Any], settings: AgentSettings) -> None:
    """Raise if the rollout or replay buffer exceeds `MAX_BUFFER_NUMBERS`."""
    per_env = max(getattr(settings, name, 1) for name in ("n_steps", "steps_per_iteration"))
    steps = settings.n_envs * per_env
    try:
        row = sum(space_numbers(content[name]) for name in ("observation_space", "action_space"))
    except (KeyError, ValueError) as error:
        raise ModelFileError(f"invalid space: {error}") from error
    numbers = max(steps, getattr(settings, "buffer_size", 1)) * (row + 1)
    if numbers > MAX_BUFFER_NUMBERS:
        raise ModelFileError(
            f"the buffer of the file has {numbers} numbers; expected at most {MAX_BUFFER_NUMBERS}"
        )


def windows_of(content: Mapping[str, Any]) -> WindowGather | None:
    """Window lookup of a model file, without data; None if it has none."""
    shape = content.get("windows")
    if shape is None:
        return None
    is_shape = isinstance(shape, list) and len(shape) == 3
    if not is_shape or not all(type(count) is int and count > 0 for count in shape):
        raise ModelFileError(f"windows must be three integers above 0, got {shape}")
    if math.prod(shape) > SPACE_NUMBERS:
        raise ModelFileError(f"windows of shape {shape} are too large")
    return WindowGather.without_data((shape[0], shape[1], shape[2]))


def env_of(content: Mapping[str, Any], path: Any) -> EnvSpec:
    """Env spec of a model file: a registered env with wrappers and arguments by name.

    Raises:
        ModelFileError: the spec is missing or invalid, or its env is not registered.
    """
    text = content.get("env")
    if text is None:
        raise ModelFileError(f"{path} has no env spec, because {_why_unnamed(content)}")
    try:
        return EnvSpec.from_json(text)
    except (ValueError, SekaiError) as error:
        raise ModelFileError(
            f"{path}: invalid or unregistered env ({error}): {_arguments_of(content)}"
        ) from error


def _why_unnamed(content: Mapping[str, Any]) -> str:
    """Cause and remedy of a file without an env spec."""
    saved = _saved_arguments(content)
    kind = ENV_KINDS.get(str(saved.get("kind")))
    if kind is not None:
        name = str(saved.get("env"))[:80]
        return f"it was trained on {kind} {name!r}, which has no id: pass env=..., as in training"
    return f"options such as data in memory cannot be saved: {_arguments_of(content)}"


def _saved_arguments(content: Mapping[str, Any]) -> Mapping[str, Any]:
    saved = content.get("env_arguments")
    return saved if isinstance(saved, Mapping) else {}


def _arguments_of(content: Mapping[str, Any]) -> str:
    """Remedy of a missing env: the arguments of training, by name."""
    saved = _saved_arguments(content)
    name, options = saved.get("env"), saved.get("env_options")
    if not isinstance(name, str) or not isinstance(options, list) or not options:
        return "pass env=..., and env_options={...} if it is an id"
    shown = ", ".join(f"{str(option)[:40]!r}: ..." for option in options[:8])
    return f"pass env={name[:80]!r} and env_options={{{shown}}}, as in training"


def network_of(
    content: Mapping[str, Any], make: Callable[[], PolicyNetwork | None]
) -> PolicyNetwork | None:
    """Make a network and load the weights of a model file.

    It is made on the meta device and compared first, so that a small file cannot allocate much.
    """
    try:
        with torch.device("meta"):
            drawn = make()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"cannot build the network: {error}") from error
    if drawn is None:
        return None
    saved = _acting(drawn, content["network"])
    _compare(drawn.state_dict(), saved)
    with torch.random.fork_rng(devices=[]):
        network = make()
    assert network is not None, "made on the meta device before"
    network.load_state_dict(saved)
    return network


def _acting(network: PolicyNetwork, saved: Any) -> dict[str, Any]:
    """Weights that acting needs."""
    if not isinstance(saved, Mapping):
        raise ModelFileError(f"network must be weights by name, got {type(saved).__name__}")
    return {
        name: weights
        for name, weights in saved.items()
        if not name.startswith(network.for_learning)
    }


def load_network(network: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Load weights after comparing names and shapes; a mismatch changes nothing."""
    _compare(network.state_dict(), saved)
    network.load_state_dict(dict(saved))


def _compare(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    if not isinstance(saved, Mapping) or own.keys() != saved.keys():
        odd = sorted(own.keys() ^ set(saved))[:3]
        raise ModelFileError(f"the file is of another network: {', '.join(odd)} differ")
    for name, weights in own.items():
        tensor = saved[name]
        is_like = isinstance(tensor, torch.Tensor)
        if not is_like or tensor.shape != weights.shape or tensor.dtype != weights.dtype:
            shown = f"{tuple(tensor.shape)} {tensor.dtype}" if is_like else repr(type(tensor))
            raise ModelFileError(
                f"{name} needs {tuple(weights.shape)} {weights.dtype}, the file has {shown}"
            )
