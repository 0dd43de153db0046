"""Default hyperparameters of an algorithm for an env: tuned ones by env id, or by kind of env."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sekai.config.toml_file import read_toml
from sekai.registry import EnvSpec
from sekai.storage.names import close_matches
from sekai.training.agent_settings import AgentSettings
from sekai.training.training_envs import fixed_count, is_native

__all__ = ["default_settings", "named_settings", "tuned_settings"]

Own = TypeVar("Own", bound=AgentSettings)

TUNED_FOLDER = Path(__file__).parent / "tuned"


def tuned_settings(kind: type[AgentSettings]) -> Mapping[str, Mapping[str, Any]]:
    """Tuned hyperparameters of an algorithm by env id, from its file in `training/tuned`."""
    return _read_tuned(kind.__name__.removesuffix("Settings").lower())


@cache
def _read_tuned(algorithm: str) -> Mapping[str, Mapping[str, Any]]:
    file = TUNED_FOLDER / f"{algorithm}.toml"
    return read_toml(file)[0] if file.is_file() else {}


def named_settings(kind: type[Own], name: str) -> Own:
    """Tuned hyperparameters by name, an env id.

    Raises:
        ValueError: there are none of that name.
    """
    known = tuned_settings(kind)
    if name not in known:
        close = close_matches(name, known)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(
            f"settings must be {kind.__name__}, or one of {', '.join(known) or 'no tuned settings'}"
            f"; got {name!r}{hint}"
        )
    return kind.from_dict(known[name])


def default_settings(kind: type[Own], env: Any) -> Own:
    """Default hyperparameters of an algorithm for an env.

    They are tuned if the id of the env is known. Otherwise they are those of the algorithm for
    native envs, whose steps cost next to nothing, and those for few and expensive steps for others.
    """
    if env is None:
        return kind()
    values = tuned_settings(kind).get(_env_id(env))
    if values is None:
        values = {} if is_native(env) else kind.python_env_settings
    count = fixed_count(env)
    if count is None:
        return kind.from_dict(values)
    sizes = {"n_envs": count}
    if "n_steps" in values and count < values.get("n_envs", 0):
        # Rollouts of as many steps.
        sizes["n_steps"] = values["n_steps"] * values["n_envs"] // count
    return kind.from_dict({**values, **sizes})


def _env_id(env: Any) -> str:
    """Id of an env, a spec, or the id itself; empty if there is none."""
    if isinstance(env, str):
        return env
    known = env if isinstance(env, EnvSpec) else getattr(env, "spec", None)
    return str(getattr(known, "id", ""))
