"""Registry of gymnasium as the namespace `gymnasium/`."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.compat.gymnasium.envs import ImportedEnv, from_gymnasium
from sekai.error import UnknownEnvError
from sekai.registry.spec import EnvSpec

__all__ = ["NAMESPACE", "known_ids", "make_known", "resolve"]

NAMESPACE = "gymnasium"


def resolve(id: str) -> EnvSpec:
    """Spec of `gymnasium/<id>`. The time limit is set by gymnasium's `make`.

    Raises:
        UnknownEnvError: gymnasium has no `<id>`.
    """
    inner = id.removeprefix(f"{NAMESPACE}/")
    try:
        spec = gymnasium.spec(inner)
    except gymnasium.error.Error as error:
        raise UnknownEnvError(f"unknown gymnasium env {inner!r}: {error}") from error
    return EnvSpec(
        id=id,
        entry_point="sekai.compat.gymnasium.namespace:make_known",
        kwargs={"env": inner},
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
    )


def make_known(env: str, **kwargs: Any) -> ImportedEnv:
    """Make an env that gymnasium has registered.

    Args:
        env: its id. `module:Name` is rejected: gymnasium would import the module, and specs read
            from files end here.
        kwargs: further arguments of `gymnasium.make`.
    """
    if not isinstance(env, str) or ":" in env:
        raise ValueError(f"expected an id that gymnasium has registered, got {env!r:.80}")
    return from_gymnasium(env, **kwargs)


def known_ids() -> list[str]:
    """Ids of all envs registered in gymnasium, whether or not they can be made here."""
    return sorted(f"{NAMESPACE}/{inner}" for inner in gymnasium.registry)
