"""One of our envs as gymnasium sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from sekai.compat.gymnasium.spaces import space_to_gymnasium
from sekai.compat.gymnasium.values import value_from_gymnasium, value_to_gymnasium
from sekai.core.env import Env

if TYPE_CHECKING:
    from sekai.rendering import Renders

__all__ = ["ExportedEnv", "to_gymnasium"]

DEFAULT_FRAMES_PER_SECOND = 30


class ExportedEnv(gymnasium.Env[Any, Any]):
    """A `gymnasium.Env` around a `sekai.Env`, which is its `sekai_env`.

    Public attributes that gymnasium does not know are looked up in the env inside.
    """

    def __init__(self, env: Env[Any, Any], renderer: Renders | None = None) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"a sekai.Env was wanted, found {env!r}")
        self.sekai_env = env
        self._renderer = renderer
        self.observation_space = space_to_gymnasium(env.observation_space)
        self.action_space = space_to_gymnasium(env.action_space)
        self.render_mode = None if renderer is None else "rgb_array"
        self.metadata = {
            **env.metadata,
            "render_modes": [] if renderer is None else ["rgb_array"],
            "render_fps": env.metadata.get("render_fps", DEFAULT_FRAMES_PER_SECOND),
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        result = self.sekai_env.reset(seed=seed, options=options)
        return self._observed(result.observation), dict(result.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once."""
        action = value_from_gymnasium(self.sekai_env.action_space, action)
        result = self.sekai_env.step(action)
        return (
            self._observed(result.observation),
            float(result.reward),
            bool(result.terminated),
            bool(result.truncated),
            dict(result.info),
        )

    def render(self) -> Any:
        """A picture of the env, if a renderer was given."""
        if self._renderer is None:
            raise RuntimeError("there is nothing to draw with: to_gymnasium(env, renderer=...)")
        return self._renderer.render(self.sekai_env)

    def close(self) -> None:
        """Close the env, and the renderer with it."""
        if self._renderer is not None:
            self._renderer.close()
        self.sekai_env.close()

    def _observed(self, observation: Any) -> Any:
        return value_to_gymnasium(self.sekai_env.observation_space, observation)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "sekai_env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.sekai_env, name)

    def __str__(self) -> str:
        return f"<{type(self).__name__}({self.sekai_env!r})>"


def to_gymnasium(env: Env[Any, Any], *, renderer: Renders | None = None) -> ExportedEnv:
    """`env` as a `gymnasium.Env`: the same numbers from the same seeds and actions.

    Args:
        env: one of our envs.
        renderer: what draws it; with one, `render_mode` is `rgb_array`.
    """
    return ExportedEnv(env, renderer)
