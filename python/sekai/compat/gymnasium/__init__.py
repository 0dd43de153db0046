"""Adapters to and from gymnasium: spaces, envs, vector envs, and both registries.

Importing this registers the envs of sekai with gymnasium.
"""

from sekai.storage.optional import optional_import

# Checked here once, for all modules below.
optional_import("gymnasium", "gymnasium", "sekai.compat.gymnasium")

from sekai.compat.gymnasium.registration import register_gymnasium_envs  # noqa: E402

__all__ = ["register_gymnasium_envs"]

register_gymnasium_envs()
