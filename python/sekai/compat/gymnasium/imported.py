"""An env of gymnasium as one of ours."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sekai.compat.gymnasium.spaces import space_from_gymnasium
from sekai.compat.gymnasium.values import owned
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult

__all__ = ["ImportedEnv", "from_gymnasium"]


class ImportedEnv(Env[Any, Any]):
    """A `sekai.Env` around a `gymnasium.Env`, which is its `gymnasium_env`.

    Public attributes that we do not know are looked up in the env inside. `state_dict` takes a
    deep copy of that env, so it works for every env that can be copied: those that hold a window
    or a simulator's handle raise `StateError`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"a gymnasium.Env was wanted, found {env!r}")
        self.gymnasium_env = env
        self.observation_space = space_from_gymnasium(env.observation_space)
        self.action_space = space_from_gymnasium(env.action_space)

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The metadata of the env inside."""
        return self.gymnasium_env.metadata

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the env inside."""
        return self.gymnasium_env.unwrapped.np_random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        """Begin an episode."""
        observation, info = self.gymnasium_env.reset(seed=seed, options=options)
        return ResetResult(owned(observation), info)

    def step(self, action: Any) -> StepResult[Any]:
        """Act once."""
        observation, reward, terminated, truncated, info = self.gymnasium_env.step(action)
        # Some envs give out the array that they go on writing to.
        return StepResult(
            owned(observation), float(reward), bool(terminated), bool(truncated), info
        )

    def render(self) -> Any:
        """What the env inside draws, in the mode it was made with."""
        return self.gymnasium_env.render()

    def close(self) -> None:
        """Close the env inside."""
        self.gymnasium_env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "gymnasium_env":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return self.gymnasium_env.get_wrapper_attr(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.gymnasium_env})>"


def from_gymnasium(env: gymnasium.Env[Any, Any] | str, **kwargs: Any) -> ImportedEnv:
    """An env of gymnasium as one of ours: the same numbers from the same seeds and actions.

    Args:
        env: the env, or the id under which gymnasium knows it.
        kwargs: what `gymnasium.make` is given beside the id.
    """
    if isinstance(env, str):
        return ImportedEnv(gymnasium.make(env, **kwargs))
    if kwargs:
        raise TypeError(f"an env that is made already takes no arguments, was given {kwargs}")
    return ImportedEnv(env)
