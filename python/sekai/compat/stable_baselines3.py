"""Adapter of vector envs to stable-baselines3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, carried_info, reset_info
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import StateError
from sekai.stats import EpisodeStats
from sekai.storage.optional import optional_import
from sekai.vector import StepBuffers, VecEnv
from sekai.vector.vec_env import Ids, Options, Seeds

optional_import("stable_baselines3", "sb3", "sekai.compat.to_stable_baselines3")

from stable_baselines3.common.vec_env import VecEnv as SB3VecEnv  # noqa: E402

from sekai.compat.gymnasium.spaces import (  # noqa: E402
    owned,
    space_from_gymnasium,
    space_to_gymnasium,
    value_from_gymnasium,
    value_to_gymnasium,
)
from sekai.compat.gymnasium.vectors import written  # noqa: E402

__all__ = ["StableBaselinesVecEnv", "from_stable_baselines3", "to_stable_baselines3"]


NO_IDS = (
    "vector envs of stable-baselines3 step and reset all their envs; pass a function that makes a "
    "single env to step some alone"
)


class StableBaselinesVecEnv(SB3VecEnv):
    """VecEnv of stable-baselines3 around a `sekai.vector.VecEnv`, which is its `sekai_env`.

    Infos of steps that end an episode are those of the finished one, with its final observation as
    `terminal_observation`; infos of the reset are in `reset_infos`. `EpisodeStats` of
    `RecordEpisodeStatistics` have the form of SB3's own logs.
    """

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"env must be a sekai vector env, got {env!r}")
        if env.autoreset != "same_step":
            raise ValueError(
                f"autoreset must be 'same_step' for stable-baselines3, got {env.autoreset!r}"
            )
        self.sekai_env = env
        self._actions: Any = None
        super().__init__(
            env.num_envs,
            space_to_gymnasium(env.observation_space),
            space_to_gymnasium(env.action_space),
        )

    def reset(self) -> Any:
        """Start an episode in every env, with the seeds and options that were set before."""
        seeds = None if set(self._seeds) == {None} else self._seeds
        options = [option or None for option in self._options] if any(self._options) else None
        result = self.sekai_env.reset(seed=seeds, options=options)
        # Both are used once.
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [dict(info) for info in result.infos]
        return self._observed(result.observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions of the next step."""
        self._actions = value_from_gymnasium(self.sekai_env.action_space, actions)

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every env."""
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
        """Attribute of the envs."""
        if attr_name == "render_mode":
            # Rendering is done by sekai's renderers.
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
        """Call a method of all envs, or of some if they are in this process."""
        chosen = self._chosen(indices)
        if chosen == list(range(self.num_envs)):
            return self.sekai_env.call(method_name, *method_args, **method_kwargs)
        envs = self._envs()
        return [
            getattr(envs[index], method_name)(*method_args, **method_kwargs) for index in chosen
        ]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Return True for envs with a wrapper of the class; no wrapper is gymnasium's."""
        envs = getattr(self.sekai_env.unwrapped, "envs", None)
        if envs is None:
            return [False] * len(self._chosen(indices))
        return [
            any(isinstance(layer, wrapper_class) for layer in envs[index])
            for index in self._chosen(indices)
        ]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """No frames: rendering is done by sekai's renderers."""
        return [None] * self.num_envs

    def _envs(self) -> list[Any]:
        envs: list[Any] | None = getattr(self.sekai_env.unwrapped, "envs", None)
        if envs is None:
            raise NotImplementedError(
                f"{self.sekai_env!r} cannot call methods of some envs only; leave out indices"
            )
        return envs

    def _chosen(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))

    def _observed(self, observations: Any) -> Any:
        return value_to_gymnasium(self.sekai_env.observation_space, observations)

    def _info(self, index: int, info: dict[str, Any], is_done: bool) -> dict[str, Any]:
        if not is_done:
            return {**info, "TimeLimit.truncated": False}
        self.reset_infos[index] = reset_info(info)
        space = self.sekai_env.observation_space
        last = {**info[FINAL_INFO]}
        last["terminal_observation"] = value_to_gymnasium(space, info[FINAL_OBSERVATION])
        if isinstance(last.get("episode"), EpisodeStats):
            last["episode"] = _sb3_statistics(last["episode"])
        return last


def to_stable_baselines3(env: VecEnv) -> StableBaselinesVecEnv:
    """Convert a sekai vector env to a VecEnv of stable-baselines3."""
    return StableBaselinesVecEnv(env)


class ImportedSB3VecEnv(VecEnv):
    """`sekai.vector.VecEnv` around a VecEnv of stable-baselines3, which is its `sb3_env`.

    An episode was truncated if its last info has `TimeLimit.truncated`, else terminated.
    """

    def __init__(self, env: SB3VecEnv) -> None:
        if not isinstance(env, SB3VecEnv):
            raise TypeError(f"env must be a VecEnv of stable-baselines3, got {env!r}")
        self.sb3_env = env
        self.num_envs = env.num_envs
        self.observation_space = space_from_gymnasium(env.observation_space)
        self.action_space = space_from_gymnasium(env.action_space)
        self.autoreset = "same_step"
        self._is_closed = False
        # Wrappers have neither the infos of resets nor the seeds.
        self._inner = env.unwrapped

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Start an episode in every env."""
        if ids is not None:
            raise ValueError(f"{NO_IDS}, got ids={list(ids)}")
        if options is not None:
            self.sb3_env.set_options(options)  # type: ignore[arg-type]
        if seed is not None:
            self._seed(seed)
        observations = self.sb3_env.reset()
        infos = [dict(info) for info in self._inner.reset_infos]
        return VecResetResult(owned(observations), infos)

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step every env."""
        if ids is not None:
            raise ValueError(f"{NO_IDS}, got ids={list(ids)}")
        observations, rewards, dones, infos = self.sb3_env.step(actions)
        is_cut = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        finished = np.asarray(dones, np.bool_)
        result: VecStepResult[Any] = VecStepResult(
            owned(observations),
            np.array(rewards, dtype=np.float64),
            finished & ~is_cut,
            finished & is_cut,
            [self._info(index, info) for index, info in enumerate(infos)],
        )
        return result if out is None else written(result, out)

    def get_attr(self, name: str) -> list[Any]:
        """Attribute of each env."""
        return list(self.sb3_env.get_attr(name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env."""
        for index, own in enumerate(value if per_env else [value] * self.num_envs):
            self.sb3_env.set_attr(name, own, [index])

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return list(self.sb3_env.env_method(name, *args, **kwargs))

    def state_dict(self) -> dict[str, Any]:
        """Refuse: vector envs of stable-baselines3 have no state."""
        raise StateError("the state of a VecEnv of stable-baselines3 is not available")

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuse: vector envs of stable-baselines3 have no state."""
        raise StateError("the state of a VecEnv of stable-baselines3 cannot be restored")

    def close(self) -> None:
        """Close every env."""
        if not self._is_closed:
            self._is_closed = True
            self.sb3_env.close()

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self._is_closed

    def _seed(self, seed: Any) -> None:
        if isinstance(seed, (int, np.integer)):
            self.sb3_env.seed(int(seed))
            return
        # SB3 spreads one seed; several are set as it stores them until the next reset.
        self._inner._seeds = [None if own is None else int(own) for own in seed]

    def _info(self, index: int, info: dict[str, Any]) -> dict[str, Any]:
        if "terminal_observation" not in info:
            return dict(info)
        last = {key: value for key, value in info.items() if key != "terminal_observation"}
        begun = dict(self._inner.reset_infos[index])
        final = {FINAL_OBSERVATION: info["terminal_observation"], FINAL_INFO: last}
        return {**begun, **carried_info(last, begun), **final}


def from_stable_baselines3(env: SB3VecEnv) -> VecEnv:
    """Convert a VecEnv of stable-baselines3 to a sekai vector env, for training and evaluation."""
    return env.sekai_env if isinstance(env, StableBaselinesVecEnv) else ImportedSB3VecEnv(env)


def _sb3_statistics(stats: EpisodeStats) -> dict[str, float]:
    return {"r": stats.episode_return, "l": stats.episode_length, "t": stats.elapsed_time}
