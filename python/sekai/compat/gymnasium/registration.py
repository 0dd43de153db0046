"""Envs of sekai in gymnasium's registry: `gymnasium.make("sekai/Trading-v0")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from sekai.core.multi_agent import MultiAgentEnv
from sekai.registry import all_specs, make

if TYPE_CHECKING:
    from sekai.compat.gymnasium.envs import ExportedEnv
    from sekai.compat.gymnasium.vectors import ExportedVectorEnv

__all__ = ["make_env", "make_vector_env", "register_gymnasium_envs"]

NAMESPACE = "sekai"
RENDER_MODES = (None, "rgb_array")


def register_gymnasium_envs() -> list[str]:
    """Register all envs of sekai with gymnasium, and return their gymnasium ids.

    `Trading-v0` becomes `sekai/Trading-v0`; an id with a namespace of its own keeps it. A second
    call adds envs that were registered with sekai meanwhile. Importing `sekai.compat.gymnasium`
    calls this, and so does `import sekai` if gymnasium was imported before it.
    """
    ids = []
    for spec in all_specs():
        if spec.id.startswith("gymnasium/"):
            continue
        id = spec.id if "/" in spec.id else f"{NAMESPACE}/{spec.id}"
        ids.append(id)
        if id in gymnasium.registry:
            continue
        is_vector = spec.vector_entry_point is not None
        gymnasium.register(
            id,
            entry_point=f"{__name__}:make_env",
            vector_entry_point=f"{__name__}:make_vector_env" if is_vector else None,
            reward_threshold=spec.reward_threshold,
            nondeterministic=spec.nondeterministic,
            kwargs={"sekai_id": spec.id},
        )
    return ids


def make_env(sekai_id: str, render_mode: str | None = None, **options: Any) -> ExportedEnv:
    """Make an env for `gymnasium.make`.

    Args:
        sekai_id: id of the env in sekai.
        render_mode: None, or `rgb_array` for frames of the env's own renderer.
        options: further arguments of `sekai.make`.
    """
    from sekai.compat.gymnasium.envs import to_gymnasium

    if render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
    env: Any = make(sekai_id, **options)
    if isinstance(env, MultiAgentEnv):
        raise TypeError(
            f"{sekai_id} has several agents, and gymnasium envs have one; use "
            f"sekai.compat.to_pettingzoo(sekai.make({sekai_id!r}))"
        )
    if render_mode is None:
        exported = to_gymnasium(env)
        # gymnasium lists the modes that the env could have been made with.
        exported.metadata["render_modes"] = [mode for mode in RENDER_MODES if mode is not None]
        return exported
    from sekai.rendering import renderer_for

    return to_gymnasium(env, renderer=renderer_for(env))


def make_vector_env(sekai_id: str, num_envs: int = 1, **options: Any) -> ExportedVectorEnv:
    """Make a native vector env for `gymnasium.make_vec`.

    Args:
        sekai_id: id of the env in sekai.
        num_envs: number of envs.
        options: further arguments of `sekai.make_vec`, such as `autoreset` and `num_threads`.
    """
    from sekai.compat.gymnasium.vectors import gymnasium_vector
    from sekai.vector import VecEnv, make_vec

    vec = make_vec(sekai_id, num_envs, **options)
    if not isinstance(vec, VecEnv):
        raise TypeError(
            f"{sekai_id} has several agents, and gymnasium envs have one; use "
            f"sekai.make_vec({sekai_id!r})"
        )
    return gymnasium_vector(vec)
