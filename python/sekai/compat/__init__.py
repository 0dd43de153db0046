"""Adapters to other frameworks, each imported at its first use.

env = sekai.compat.from_gymnasium("CartPole-v1")
env = sekai.compat.to_gymnasium(sekai.make("Trading-v0"))
venv = sekai.compat.to_stable_baselines3(sekai.make_vec("Trading-v0", num_envs=8))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.compat.gymnasium.envs import from_gymnasium, to_gymnasium
    from sekai.compat.gymnasium.registration import register_gymnasium_envs
    from sekai.compat.gymnasium.spaces import space_from_gymnasium, space_to_gymnasium
    from sekai.compat.gymnasium.vectors import from_gymnasium_vector, gymnasium_vector
    from sekai.compat.pettingzoo import from_pettingzoo, to_pettingzoo
    from sekai.compat.qlib import current_qlib, init_qlib
    from sekai.compat.stable_baselines3 import from_stable_baselines3, to_stable_baselines3

__all__ = [
    "adapt_env",
    "adapt_vector",
    "current_qlib",
    "from_gymnasium",
    "from_gymnasium_vector",
    "from_pettingzoo",
    "from_stable_baselines3",
    "gymnasium_vector",
    "init_qlib",
    "is_foreign_env",
    "is_foreign_vector",
    "register_gymnasium_envs",
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
    "from_stable_baselines3": "stable_baselines3",
    "gymnasium_vector": "gymnasium.vectors",
    "init_qlib": "qlib",
    "register_gymnasium_envs": "gymnasium.registration",
    "space_from_gymnasium": "gymnasium.spaces",
    "space_to_gymnasium": "gymnasium.spaces",
    "to_gymnasium": "gymnasium.envs",
    "to_pettingzoo": "pettingzoo",
    "to_stable_baselines3": "stable_baselines3",
}
"""Module of each function."""

REMEDIES = {
    ("gymnasium", "VectorEnv"): "convert a gymnasium vector env with from_gymnasium_vector",
    ("gymnasium", "Env"): "convert a gymnasium env with from_gymnasium",
    ("stable_baselines3", "VecEnv"): "convert a VecEnv with from_stable_baselines3",
    ("pettingzoo", "AECEnv"): "convert an AEC env with pettingzoo.utils.aec_to_parallel first, "
    "and the result with from_pettingzoo",
    ("pettingzoo", "ParallelEnv"): "convert a PettingZoo env with from_pettingzoo",
    ("sekai", "VecEnv"): "a sekai vector env needs no conversion; export it with "
    "gymnasium_vector or to_stable_baselines3",
    ("sekai", "MultiAgentEnv"): "a sekai multi-agent env needs no conversion; export it with "
    "to_pettingzoo",
    ("sekai", "Env"): "a sekai env needs no conversion; export it with to_gymnasium, or make a "
    "vector env of it with make_vec or SyncVecEnv",
}
"""Remedy by package and base class of an env that a bridge refuses."""


def is_foreign_env(env: Any) -> bool:
    """Return True for an env of gymnasium or PettingZoo."""
    # By module name, so that neither package needs to be installed.
    roots = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    return bool(roots & {"gymnasium", "pettingzoo"}) and hasattr(env, "step")


def advice(env: Any) -> str:
    """Remedy for an env of another kind than a bridge takes; empty if there is none."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(env).__mro__}
    remedy = next((remedy for kind, remedy in REMEDIES.items() if kind in kinds), None)
    return "" if remedy is None else f"; {remedy}"


def adapt_env(env: Any) -> Any:
    """Convert an env of gymnasium or PettingZoo; any other env is returned as it is."""
    if not is_foreign_env(env):
        return env
    from sekai.compat import from_gymnasium, from_pettingzoo

    is_single = hasattr(env, "action_space") and not callable(env.action_space)
    return from_gymnasium(env) if is_single else from_pettingzoo(env)


def is_foreign_vector(env: Any) -> bool:
    """Return True for a vector env of gymnasium or stable-baselines3."""
    names = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(env).__mro__}
    return bool(names & {("gymnasium", "VectorEnv"), ("stable_baselines3", "VecEnv")})


def adapt_vector(env: Any) -> Any:
    """Convert a vector env of gymnasium or stable-baselines3 to one that training can use.

    Any other object is returned as it is.

    Raises:
        ValueError: the vector env resets finished envs in the next step only.
    """
    if not is_foreign_vector(env):
        return env
    if any(kind.__module__.startswith("stable_baselines3.") for kind in type(env).__mro__):
        from sekai.compat import from_stable_baselines3

        return from_stable_baselines3(env)
    from sekai.compat.gymnasium.vectors import same_step_vector

    return same_step_vector(env)


def __getattr__(name: str) -> Any:
    """Import an adapter at its first use."""
    from importlib import import_module

    if name == "gymnasium":
        return import_module("sekai.compat.gymnasium")
    if name not in MODULES:
        raise AttributeError(f"module 'sekai.compat' has no attribute {name!r}")
    return getattr(import_module(f"sekai.compat.{MODULES[name]}"), name)
