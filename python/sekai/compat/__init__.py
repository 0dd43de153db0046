"""Adapters to other frameworks, each imported at its first use.

env = sekai.compat.from_gymnasium("CartPole-v1")
env = sekai.compat.to_gymnasium(sekai.make("Trading-v0"))
venv = sekai.compat.to_stable_baselines3(sekai.make_vec("Trading-v0", num_envs=8))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.compat.gymnasium.envs import from_gymnasium, to_gymnasium
    from sekai.compat.gymnasium.spaces import space_from_gymnasium, space_to_gymnasium
    from sekai.compat.gymnasium.vectors import from_gymnasium_vector, gymnasium_vector
    from sekai.compat.pettingzoo import from_pettingzoo, to_pettingzoo
    from sekai.compat.qlib import current_qlib, init_qlib
    from sekai.compat.stable_baselines3 import from_sb3_vec_env, to_stable_baselines3

__all__ = [
    "adapt_env",
    "current_qlib",
    "from_gymnasium",
    "from_gymnasium_vector",
    "from_pettingzoo",
    "from_sb3_vec_env",
    "gymnasium_vector",
    "init_qlib",
    "is_foreign_env",
    "space_from_gymnasium",
    "space_to_gymnasium",
    "to_gymnasium",
    "to_pettingzoo",
    "to_stable_baselines3",
]

MODULES = {
    "current_qlib": "qlib",
    "from_gymnasium": "gymnasium.envs",
    "from_gymnasium_vector": "gymnasium.vectors",
    "from_pettingzoo": "pettingzoo",
    "from_sb3_vec_env": "stable_baselines3",
    "gymnasium_vector": "gymnasium.vectors",
    "init_qlib": "qlib",
    "space_from_gymnasium": "gymnasium.spaces",
    "space_to_gymnasium": "gymnasium.spaces",
    "to_gymnasium": "gymnasium.envs",
    "to_pettingzoo": "pettingzoo",
    "to_stable_baselines3": "stable_baselines3",
}
"""Module of each function."""


def is_foreign_env(env: Any) -> bool:
    """Return True for an env of gymnasium or PettingZoo."""
    # By module name, so that neither package needs to be installed.
    roots = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    return bool(roots & {"gymnasium", "pettingzoo"}) and hasattr(env, "step")


def adapt_env(env: Any) -> Any:
    """Convert an env of gymnasium or PettingZoo; any other env is returned as it is."""
    if not is_foreign_env(env):
        return env
    from sekai.compat import from_gymnasium, from_pettingzoo

    is_single = hasattr(env, "action_space") and not callable(env.action_space)
    return from_gymnasium(env) if is_single else from_pettingzoo(env)


def __getattr__(name: str) -> Any:
    """Import an adapter at its first use."""
    if name not in MODULES:
        raise AttributeError(f"module 'sekai.compat' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sekai.compat.{MODULES[name]}"), name)
