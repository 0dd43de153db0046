"""One of our vector envs as stable-baselines3 sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, said_by_reset
from sekai.error import MissingExtraError
from sekai.stats import EpisodeStats
from sekai.vector import VecEnv

try:
    from stable_baselines3.common.vec_env import VecEnv as TheirVecEnv
except ModuleNotFoundError as error:
    raise MissingExtraError.of(
        "stable-baselines3", "sb3", "sekai.compat.to_stable_baselines3"
    ) from error

from sekai.compat.gymnasium.spaces import space_to_gymnasium
from sekai.compat.gymnasium.values import value_from_gymnasium, value_to_gymnasium

__all__ = ["StableBaselinesVecEnv", "to_stable_baselines3"]


class StableBaselinesVecEnv(TheirVecEnv):
    """A `stable_baselines3` VecEnv around a `sekai.vector.VecEnv`, which is its `sekai_env`.

    Infos of steps that end an episode are those of the finished one, with its last observation as
    `terminal_observation`; the infos that begin the next are in `reset_infos`. The `EpisodeStats`
    of `RecordEpisodeStatistics` appear in the form that SB3's own logs read.
    """

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"a sekai vector env was wanted, found {env!r}")
        if env.autoreset != "same_step":
            raise ValueError(
                f"stable-baselines3 needs a vector env with autoreset='same_step', this one has "
                f"{env.autoreset!r}"
            )
        self.sekai_env = env
        self._actions: Any = None
        super().__init__(
            env.num_envs,
            space_to_gymnasium(env.observation_space),
            space_to_gymnasium(env.action_space),
        )

    def reset(self) -> Any:
        """Begin an episode in every env, with the seeds and options that were set before."""
        seeds = None if set(self._seeds) == {None} else self._seeds
        options = [option or None for option in self._options] if any(self._options) else None
        result = self.sekai_env.reset(seed=seeds, options=options)
        # Both are used once.
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [dict(info) for info in result.infos]
        return self._observed(result.observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Note what the envs shall do."""
        self._actions = value_from_gymnasium(self.sekai_env.action_space, actions)

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Let every env act once."""
        result = self.sekai_env.step(self._actions)
        dones = result.dones
        infos = [
            self._info(index, info, bool(dones[index])) for index, info in enumerate(result.infos)
        ]
        for index in np.flatnonzero(dones):
            infos[index]["TimeLimit.truncated"] = not bool(result.terminated[index])
        rewards = result.rewards.astype(np.float32)
        return self._observed(result.observations), rewards, dones, infos

    def close(self) -> None:
        """Close every env."""
        self.sekai_env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the envs."""
        if attr_name == "render_mode":
            # Drawing is done from outside, by renderers.
            return [None] * len(self._chosen(indices))
        values = self.sekai_env.get_attr(attr_name)
        return [values[index] for index in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the envs."""
        if indices is None:
            self.sekai_env.set_attr(attr_name, value)
            return
        values = self.sekai_env.get_attr(attr_name)
        for index in self._chosen(indices):
            values[index] = value
        self.sekai_env.set_attr(attr_name, values, per_env=True)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the envs: of all, or of some if they live in this process."""
        chosen = self._chosen(indices)
        if chosen == list(range(self.num_envs)):
            return self.sekai_env.call(method_name, *method_args, **method_kwargs)
        envs = self._envs()
        return [
            getattr(envs[index], method_name)(*method_args, **method_kwargs) for index in chosen
        ]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Whether the envs have a layer of the class; no layer is gymnasium's."""
        envs = getattr(self.sekai_env.unwrapped, "envs", None)
        if envs is None:
            return [False] * len(self._chosen(indices))
        return [
            any(isinstance(layer, wrapper_class) for layer in envs[index])
            for index in self._chosen(indices)
        ]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """No pictures: drawing is done from outside, by renderers."""
        return [None] * self.num_envs

    def _envs(self) -> list[Any]:
        envs: list[Any] | None = getattr(self.sekai_env.unwrapped, "envs", None)
        if envs is None:
            raise NotImplementedError(
                f"{self.sekai_env!r} calls methods of all its envs or of none: leave out indices"
            )
        return envs

    def _chosen(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))

    def _observed(self, observations: Any) -> Any:
        return value_to_gymnasium(self.sekai_env.observation_space, observations)

    def _info(self, index: int, info: dict[str, Any], is_done: bool) -> dict[str, Any]:
        if not is_done:
            return {**info, "TimeLimit.truncated": False}
        self.reset_infos[index] = said_by_reset(info)
        space = self.sekai_env.observation_space
        last = {**info[FINAL_INFO]}
        last["terminal_observation"] = value_to_gymnasium(space, info[FINAL_OBSERVATION])
        if isinstance(last.get("episode"), EpisodeStats):
            last["episode"] = _their_statistics(last["episode"])
        return last


def to_stable_baselines3(env: VecEnv) -> StableBaselinesVecEnv:
    """`env` as a VecEnv for the algorithms of stable-baselines3."""
    return StableBaselinesVecEnv(env)


def _their_statistics(stats: EpisodeStats) -> dict[str, float]:
    return {"r": stats.episode_return, "l": stats.episode_length, "t": stats.elapsed_time}
