"""Adapters between sekai envs and gymnasium envs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from sekai.compat import advice
from sekai.compat.gymnasium.spaces import (
    owned,
    space_from_gymnasium,
    space_to_gymnasium,
    value_from_gymnasium,
    value_to_gymnasium,
)
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult

if TYPE_CHECKING:
    from sekai.rendering import Renders

__all__ = ["ExportedEnv", "ImportedEnv", "from_gymnasium", "to_gymnasium"]

DEFAULT_FRAMES_PER_SECOND = 30


class ExportedEnv(gymnasium.Env[Any, Any]):
    """`gymnasium.Env` around a `sekai.Env`, which is its `sekai_env`.

    Other public attributes are looked up in the inner env.
    """

    def __init__(self, env: Env[Any, Any], renderer: Renders | None = None) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"env must be a sekai.Env, got {env!r}{advice(env)}")
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
        """Start an episode."""
        super().reset(seed=seed)
        result = self.sekai_env.reset(seed=seed, options=options)
        return self._observed(result.observation), dict(result.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the env."""
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
        """Render the env; needs a renderer."""
        if self._renderer is None:
            raise RuntimeError("no renderer; pass one by to_gymnasium(env, renderer=...)")
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
    """Convert a sekai env to a `gymnasium.Env` with identical results.

    Args:
        env: a sekai env.
        renderer: its renderer; with one, `render_mode` is `rgb_array`.
    """
    return ExportedEnv(env, renderer)


class ImportedEnv(Env[Any, Any]):
    """`sekai.Env` around a `gymnasium.Env`, which is its `gymnasium_env`.

    Other public attributes are looked up in the inner env. `state_dict` is a deep copy of that env;
    an env that cannot be copied, such as one with a window, raises `StateError`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"env must be a gymnasium.Env, got {env!r}{advice(env)}")
        self.gymnasium_env = env
        self.observation_space = space_from_gymnasium(env.observation_space)
        self.action_space = space_from_gymnasium(env.action_space)

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """Metadata of the inner env."""
        return self.gymnasium_env.metadata

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the inner env."""
        return self.gymnasium_env.unwrapped.np_random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        """Start an episode."""
        observation, info = self.gymnasium_env.reset(seed=seed, options=options)
        return ResetResult(owned(observation), info)

    def step(self, action: Any) -> StepResult[Any]:
        """Step the env."""
        observation, reward, terminated, truncated, info = self.gymnasium_env.step(action)
        # Some envs return an array that they overwrite later.
        return StepResult(
            owned(observation), float(reward), bool(terminated), bool(truncated), info
        )

    def render(self) -> Any:
        """Render the inner env in its render mode."""
        return self.gymnasium_env.render()

    def close(self) -> None:
        """Close the inner env."""
        self.gymnasium_env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "gymnasium_env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return self.gymnasium_env.get_wrapper_attr(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.gymnasium_env})>"


def from_gymnasium(env: gymnasium.Env[Any, Any] | str, **kwargs: Any) -> ImportedEnv:
    """Convert a gymnasium env to a sekai env with identical results.

    Args:
        env: the env, or its gymnasium id.
        kwargs: further arguments of `gymnasium.make`.
    """
    if isinstance(env, str):
        return ImportedEnv(gymnasium.make(env, **kwargs))
    if kwargs:
        raise TypeError(f"an env instance takes no further arguments, got {kwargs}")
    return ImportedEnv(env)
