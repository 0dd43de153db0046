"""gymnasium's registry as the namespace `gymnasium/` of ours."""

from __future__ import annotations

import gymnasium

from sekai.registry.spec import EnvSpec

__all__ = ["NAMESPACE", "resolve"]

NAMESPACE = "gymnasium"


def resolve(id: str) -> EnvSpec | None:
    """How to make `gymnasium/<id>`, if gymnasium knows `<id>`.

    The time limit is left to gymnasium, whose `make` sets it.
    """
    inner = id.removeprefix(f"{NAMESPACE}/")
    try:
        spec = gymnasium.spec(inner)
    except gymnasium.error.Error:
        return None
    return EnvSpec(
        id=id,
        entry_point="sekai.compat.gymnasium.imported:from_gymnasium",
        kwargs={"env": inner},
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
    )
