"""Settings that are known to suit an env."""

from __future__ import annotations

from typing import Any, TypeVar

from sekai.registry import EnvSpec
from sekai.training.agent_settings import AgentSettings

__all__ = ["default_settings"]

Own = TypeVar("Own", bound=AgentSettings)

BY_ENV: dict[str, dict[str, dict[str, Any]]] = {}
"""For each env, what the settings of each algorithm are instead of its own."""


def default_settings(kind: type[Own], env: Any) -> Own:
    """The settings of an algorithm for an env."""
    name = env.id if isinstance(env, EnvSpec) else env if isinstance(env, str) else ""
    return kind.from_dict(BY_ENV.get(name, {}).get(kind.__name__, {}))
