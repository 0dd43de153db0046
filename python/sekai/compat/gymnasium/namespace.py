"""gymnasium's registry as the namespace `gymnasium/` of ours."""

from __future__ import annotations

from typing import Any

import gymnasium

from sekai.compat.gymnasium.imported import ImportedEnv, from_gymnasium
from sekai.error import UnknownEnvError
from sekai.registry.spec import EnvSpec

__all__ = ["NAMESPACE", "known_ids", "make_known", "resolve"]

NAMESPACE = "gymnasium"


def resolve(id: str) -> EnvSpec:
    """How to make `gymnasium/<id>`. The time limit is left to gymnasium, whose `make` sets it.

    Raises:
        UnknownEnvError: gymnasium does not know `<id>`; it may say what it knows instead.
    """
    inner = id.removeprefix(f"{NAMESPACE}/")
    try:
        spec = gymnasium.spec(inner)
    except gymnasium.error.Error as error:
        raise UnknownEnvError(f"gymnasium knows no env {inner!r}: {error}") from error
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
        env: its id. `module:Name` is refused: gymnasium would import the module, and specs that
            are read from files end here.
        kwargs: what `gymnasium.make` is given beside the id.
    """
    if not isinstance(env, str) or ":" in env:
        raise ValueError(f"expected an id that gymnasium has registered, got {env!r:.80}")
    return from_gymnasium(env, **kwargs)


def known_ids() -> list[str]:
    """The ids of all that gymnasium has registered, whether or not it can be made here."""
    return sorted(f"{NAMESPACE}/{inner}" for inner in gymnasium.registry)
