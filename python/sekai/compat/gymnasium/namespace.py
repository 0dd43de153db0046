"""gymnasium's registry as the namespace `gymnasium/` of ours."""

from __future__ import annotations

import gymnasium

from sekai.error import UnknownEnvError
from sekai.registry.spec import EnvSpec

__all__ = ["NAMESPACE", "known_ids", "resolve"]

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
        entry_point="sekai.compat.gymnasium.imported:from_gymnasium",
        kwargs={"env": inner},
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
    )


def known_ids() -> list[str]:
    """The ids of all that gymnasium has registered, whether or not it can be made here."""
    return sorted(f"{NAMESPACE}/{inner}" for inner in gymnasium.registry)
