"""Bridges to other frameworks; each is imported when it is first used.

env = sekai.compat.from_gymnasium("CartPole-v1")
env = sekai.compat.to_gymnasium(sekai.make("Trading-v0"))
venv = sekai.compat.to_stable_baselines3(sekai.make_vec("Trading-v0", num_envs=8))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.compat.gymnasium.exported import to_gymnasium
    from sekai.compat.gymnasium.exported_vector import gymnasium_vector
    from sekai.compat.gymnasium.imported import from_gymnasium
    from sekai.compat.gymnasium.imported_vector import from_gymnasium_vector
    from sekai.compat.gymnasium.spaces import space_from_gymnasium, space_to_gymnasium
    from sekai.compat.pettingzoo.exported import to_pettingzoo
    from sekai.compat.pettingzoo.imported import from_pettingzoo
    from sekai.compat.qlib import current_qlib, init_qlib
    from sekai.compat.stable_baselines3 import to_stable_baselines3

__all__ = [
    "current_qlib",
    "from_gymnasium",
    "from_gymnasium_vector",
    "from_pettingzoo",
    "gymnasium_vector",
    "init_qlib",
    "space_from_gymnasium",
    "space_to_gymnasium",
    "to_gymnasium",
    "to_pettingzoo",
    "to_stable_baselines3",
]

PLACES = {
    "current_qlib": "qlib",
    "from_gymnasium": "gymnasium.imported",
    "from_gymnasium_vector": "gymnasium.imported_vector",
    "from_pettingzoo": "pettingzoo.imported",
    "gymnasium_vector": "gymnasium.exported_vector",
    "init_qlib": "qlib",
    "space_from_gymnasium": "gymnasium.spaces",
    "space_to_gymnasium": "gymnasium.spaces",
    "to_gymnasium": "gymnasium.exported",
    "to_pettingzoo": "pettingzoo.exported",
    "to_stable_baselines3": "stable_baselines3",
}
"""The module in which each function is."""


def __getattr__(name: str) -> Any:
    """Import a bridge when it is first asked for."""
    if name not in PLACES:
        raise AttributeError(f"module 'sekai.compat' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sekai.compat.{PLACES[name]}"), name)
