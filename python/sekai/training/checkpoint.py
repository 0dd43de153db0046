"""Model files: saved agents as safetensors with a JSON header, validated on load."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import stat
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sekai.data.signature import DataSignature
from sekai.error import SekaiError, StateError
from sekai.registry import EnvSpec
from sekai.registry import spec as spec_of
from sekai.spaces import Space
from sekai.storage.arrays import SPACE_NUMBERS, check_space, space_numbers
from sekai.storage.codec import ArrayStore, from_json_value, to_json_value
from sekai.storage.files import atomic_write
from sekai.storage.optional import optional_import
from sekai.storage.strict_json import parse_json
from sekai.training.agent_settings import AgentSettings
from sekai.training.observations import WindowGather
from sekai.training.trained_policy import PolicyNetwork
from sekai.vector.vec_env import VecEnv

if TYPE_CHECKING:
    from sekai.training.saving import SavableAgent

__all__ = [
    "ModelFileError",
    "agent_content",
    "env_of",
    "file_of",
    "load_network",
    "network_of",
    "read_agent",
    "read_file",
    "require_functions",
    "settings_of",
    "signature_of",
    "space_of",
    "windows_of",
    "write_file",
]

NAME = "agent.safetensors"
"""File name in a folder."""

FORMAT = "4"
MAX_FILE_BYTES = 64 * 2**30
"""Largest file that is read."""

MAX_HEADER_BYTES = 100_000_000
"""Largest header, as in safetensors."""


class ModelFileError(StateError):
    """Model file is damaged, of another format or of another algorithm; nothing was loaded."""


def file_of(path: str | os.PathLike[str]) -> Path:
    """Path of the model file: the path itself, or the file in that folder."""
    location = Path(path)
    return location if location.suffix == ".safetensors" else location / NAME


def write_file(path: str | os.PathLike[str], content: Mapping[str, Any]) -> Path:
    """Write a nested value atomically: a crash leaves the old file, or none.

    Raises:
        StateError: the value cannot be serialized.
    """
    target = file_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, NDArray[Any]] = {}
    try:
        words = json.dumps(to_json_value(content, "the state", _store(tensors)), allow_nan=False)
    except ValueError as error:
        raise StateError(f"the agent cannot be saved: {error}") from error
    if len(words) > MAX_HEADER_BYTES // 2:
        raise StateError(f"the agent cannot be saved: its JSON has {len(words)} characters")
    metadata = {"format": FORMAT, "sekai": words, "digest": _digest(words, tensors)}
    data = _in_order(_safetensors().save(tensors, metadata=metadata))
    atomic_write(target, data)
    return target


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the value of a model file.

    Raises:
        ModelFileError: the file is missing, damaged or of another format.
    """
    file = file_of(path)
    data = _bytes_of(file)
    try:
        words = _words(data)
        tensors = _safetensors().load(data)
        if words["digest"] != _digest(words["sekai"], tensors):
            raise ModelFileError(f"{file} is damaged: the checksum does not match")
        content = from_json_value(parse_json(words["sekai"]), _store(tensors))
    except ModelFileError:
        raise
    except Exception as error:
        # safetensors and JSON raise errors of their own.
        raise ModelFileError(f"{file} is not a valid model file: {error}") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{file} must hold an agent, got {type(content).__name__}")
    return content


def _store(tensors: dict[str, NDArray[Any]]) -> ArrayStore:
    """Store of arrays and tensors beside the JSON."""
    return ArrayStore(tensors, _array_of, lambda array: torch.from_numpy(array.copy()))


def _array_of(value: Any) -> NDArray[Any] | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        array: NDArray[Any] = value.detach().cpu().numpy()
    except TypeError as error:
        raise ValueError(f"tensors of {value.dtype} cannot be converted to NumPy") from error
    return array


def _in_order(data: bytes) -> bytes:
    """Sort the metadata, which safetensors writes in any order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    # Same length, so that tensors stay aligned.
    ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    if len(ordered) > length:
        length = -(-len(ordered) // 8) * 8
    old = int.from_bytes(data[:8], "little")
    return length.to_bytes(8, "little") + ordered.ljust(length) + data[8 + old :]


def _digest(words: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of header and tensors: detects damage, not forgery."""
    digest = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _words(data: bytes) -> dict[str, str]:
    length = int.from_bytes(data[:8], "little")
    header = parse_json(data[8 : 8 + length].decode("utf-8"))
    words = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(words, dict) or not {"format", "sekai", "digest"} <= words.keys():
        raise ModelFileError("the header has no metadata of an agent")
    if words["format"] != FORMAT:
        raise ModelFileError(
            f"expected model format {FORMAT}, got {words['format']!r:.80}: save the agent again "
            f"with this version"
        )
    return words


def _bytes_of(file: Path) -> bytes:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{file} is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise ModelFileError(f"{file} has {status.st_size} bytes, more than {MAX_FILE_BYTES}")
        with file.open("rb") as opened:
            head = opened.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(status.st_size - 8, MAX_HEADER_BYTES):
                raise ModelFileError(
                    f"{file} has a header length of {length} bytes and a size of {status.st_size}"
                )
            return head + opened.read(status.st_size - 8)
    except (OSError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file} cannot be read: {error}") from error


def _safetensors() -> Any:
    return optional_import("safetensors.numpy", "train", "Saving an agent")


Kind = TypeVar("Kind", bound=AgentSettings)

MAX_COUNTS = {
    "n_envs": 2**17,
    "n_steps": 2**20,
    "steps_per_iteration": 2**20,
    "buffer_size": 2**27,
    "threads": 2**10,
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
        "env_arguments": {"env": agent.env_name, "env_options": list(agent.env_options)},
        "observation_space": agent.vec.observation_space.to_jsonable(),
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


def data_digest(vec: VecEnv) -> str | None:
    """Digest of the market data of the envs, if they have any."""
    # Multi-agent vector envs wrap that of the worlds.
    inner = getattr(getattr(vec, "inner", None), "vec", vec)
    data = getattr(getattr(inner, "batch", None), "data", None)
    digest: str | None = getattr(data, "digest", None)
    return digest


def read_agent(path: str | os.PathLike[str], algorithm: str | None = None) -> dict[str, Any]:
    """Read a model file and validate its fields and algorithm."""
    content = read_file(path)
    missing = sorted(FIELDS.keys() - content.keys())
    if missing:
        raise ModelFileError(f"{path} is not a model file: {', '.join(missing)} missing")
    for name, kind in FIELDS.items():
        value = content[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFileError(f"{path}: {name} must be {kind.__name__}, got {value!r:.80}")
    saved_algorithm = content["algorithm"]
    if algorithm is not None and saved_algorithm != algorithm:
        raise ModelFileError(
            f"{path} holds an agent of {saved_algorithm!r:.80}, expected {algorithm}: use the "
            "class it names"
        )
    return content


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


FIELDS: dict[str, type] = {
    "algorithm": str,
    "settings": dict,
    "seed": int,
    "steps": int,
    "network": dict,
    "observation_space": dict,
    "action_space": dict,
}
"""Required fields of a model file with their types."""


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


def signature_of(content: Mapping[str, Any]) -> DataSignature | None:
    """Data signature of a model file; None if it was trained without market data."""
    values = content.get("data_signature")
    try:
        return None if values is None else DataSignature.from_dict(values)
    except ValueError as error:
        raise ModelFileError(f"invalid data signature: {error}") from error


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


def space_of(content: Mapping[str, Any], name: str) -> Space[Any]:
    """Space of a model file."""
    try:
        check_space(content[name])
        return Space.from_jsonable(content[name])
    except Exception as error:
        raise ModelFileError(f"invalid {name}: {error}") from error


def env_of(content: Mapping[str, Any], path: Any) -> EnvSpec:
    """Env spec of a model file: a registered env with wrappers and arguments by name.

    Raises:
        ModelFileError: the spec is missing or invalid, or its env is not registered.
    """
    text = content.get("env")
    if text is None:
        raise ModelFileError(
            f"{path} has no env spec, because options such as data in memory cannot be saved: "
            f"{_arguments_of(content)}"
        )
    try:
        return EnvSpec.from_json(text)
    except (ValueError, SekaiError) as error:
        raise ModelFileError(
            f"{path}: invalid or unregistered env ({error}): {_arguments_of(content)}"
        ) from error


def _arguments_of(content: Mapping[str, Any]) -> str:
    """Remedy of a missing env: the arguments of training, by name."""
    saved = content.get("env_arguments")
    saved = saved if isinstance(saved, Mapping) else {}
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
