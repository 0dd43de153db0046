"""Adapters between sekai vector envs and VecEnvs of stable-baselines3."""

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
from sekai.vector.vec_env import Ids, Options, Seeds, per_env_options

optional_import("stable_baselines3", "sb3", "sekai.compat.stable_baselines3")

from stable_baselines3.common.vec_env import SubprocVecEnv  # noqa: E402
from stable_baselines3.common.vec_env import VecEnv as SB3VecEnv  # noqa: E402

from sekai.compat import advice  # noqa: E402
from sekai.compat.gymnasium.spaces import (  # noqa: E402
    owned,
    space_from_gymnasium,
    space_to_gymnasium,
    value_from_gymnasium,
    value_to_gymnasium,
)
from sekai.compat.gymnasium.vectors import (  # noqa: E402
    copied_env,
    ignore_interrupts,
    restored_env,
    written,
)

__all__ = [
    "ImportedSB3VecEnv",
    "StableBaselinesVecEnv",
    "from_stable_baselines3",
    "to_stable_baselines3",
]

TERMINAL_OBSERVATION = "terminal_observation"
TRUNCATED = "TimeLimit.truncated"


class StableBaselinesVecEnv(SB3VecEnv):
    """VecEnv of stable-baselines3 around a `sekai.vector.VecEnv`, which is its `sekai_env`.

    Infos of steps that end an episode are those of the finished one, with its final observation as
    `terminal_observation`; infos of the reset are in `reset_infos`. `EpisodeStats` of
    `RecordEpisodeStatistics` have the form of SB3's own logs.
    """

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"env must be a sekai vector env, got {env!r}{advice(env)}")
        if env.autoreset != "same_step":
            raise ValueError(
                f"autoreset must be 'same_step' for stable-baselines3, got {env.autoreset!r}; make "
                f"the vector env with autoreset='same_step', which is the default of make_vec"
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
            infos[index][TRUNCATED] = not bool(result.terminated[index])
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
            return {**info, TRUNCATED: False}
        self.reset_infos[index] = reset_info(info)
        space = self.sekai_env.observation_space
        last = {**info[FINAL_INFO]}
        last[TERMINAL_OBSERVATION] = value_to_gymnasium(space, info[FINAL_OBSERVATION])
        if isinstance(last.get("episode"), EpisodeStats):
            last["episode"] = _sb3_statistics(last["episode"])
        return last


def to_stable_baselines3(env: VecEnv) -> StableBaselinesVecEnv:
    """Convert a sekai vector env to a VecEnv of stable-baselines3."""
    return StableBaselinesVecEnv(env)


def _sb3_statistics(stats: EpisodeStats) -> dict[str, float]:
    return {"r": stats.episode_return, "l": stats.episode_length, "t": stats.elapsed_time}


class ImportedSB3VecEnv(VecEnv):
    """`sekai.vector.VecEnv` around a VecEnv of stable-baselines3, which is its `sb3_env`.

    One seed becomes seed, seed + 1, ... as in stable-baselines3; a list of seeds is used as it is.
    `info["episode"]` of its monitors becomes an `EpisodeStats`. `state_dict` is a deep copy of the
    VecEnv, which needs its envs in this process. Workers of a `SubprocVecEnv` ignore Ctrl-C from
    then on.
    """

    def __init__(self, env: SB3VecEnv) -> None:
        if not isinstance(env, SB3VecEnv):
            raise TypeError(f"env must be a VecEnv of stable-baselines3, got {env!r}{advice(env)}")
        self.sb3_env = env
        self.num_envs = env.num_envs
        self.observation_space = space_from_gymnasium(env.observation_space)
        self.action_space = space_from_gymnasium(env.action_space)
        self.autoreset = "same_step"
        self._closed = False
        if isinstance(env.unwrapped, SubprocVecEnv):
            ignore_interrupts(env.unwrapped)

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Start an episode in every env; a VecEnv cannot reset some alone."""
        _refuse_ids(ids)
        if isinstance(seed, (int, np.integer)):
            self.sb3_env.seed(int(seed))
        elif seed is not None:
            if len(seed) != self.num_envs:
                raise ValueError(f"expected {self.num_envs} seeds, one per env, got {len(seed)}")
            # The public method takes one seed only.
            self.sb3_env.unwrapped._seeds = list(seed)
        if options is not None:
            rows = per_env_options(options, self.num_envs)
            self.sb3_env.set_options([dict(row or {}) for row in rows])
        observations = self.sb3_env.reset()
        return VecResetResult(owned(observations), [dict(info) for info in self._reset_infos()])

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step every env; a VecEnv cannot step some alone."""
        _refuse_ids(ids)
        observations, rewards, dones, infos = self.sb3_env.step(np.asarray(actions))
        done = np.array(dones, dtype=np.bool_)
        truncated = done & np.array([bool(info.get(TRUNCATED)) for info in infos], np.bool_)
        terminated = done & ~truncated
        starts = self._reset_infos()
        rows = [
            _imported_info(info, starts[index], bool(done[index]), bool(truncated[index]))
            for index, info in enumerate(infos)
        ]
        result: VecStepResult[Any] = VecStepResult(
            owned(observations), np.array(rewards, np.float64), terminated, truncated, rows
        )
        return result if out is None else written(result, out)

    def get_attr(self, name: str) -> list[Any]:
        """Attribute of each env."""
        return list(self.sb3_env.get_attr(name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env."""
        if not per_env:
            self.sb3_env.set_attr(name, value)
            return
        for index, own in enumerate(value):
            self.sb3_env.set_attr(name, own, indices=index)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return list(self.sb3_env.env_method(name, *args, **kwargs))

    def state_dict(self) -> dict[str, Any]:
        """State from which all envs continue."""
        if isinstance(self.sb3_env.unwrapped, SubprocVecEnv):
            raise StateError(
                "state of a SubprocVecEnv is not available: its envs are in other processes; use "
                "a DummyVecEnv"
            )
        return {"sb3_env": copied_env(self.sb3_env)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.sb3_env = restored_env(self.sb3_env, state_dict.get("sb3_env"))

    def close(self) -> None:
        """Close every env."""
        if not self._closed:
            self._closed = True
            self.sb3_env.close()

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self._closed

    def _reset_infos(self) -> list[dict[str, Any]]:
        # Kept by the innermost VecEnv; wrappers have a list of their own that stays empty.
        return self.sb3_env.unwrapped.reset_infos


def from_stable_baselines3(env: SB3VecEnv) -> VecEnv:
    """Convert a VecEnv of stable-baselines3 to a sekai vector env with `same_step` autoreset.

    A vector env that `to_stable_baselines3` converted is returned as it was.
    """
    return env.sekai_env if isinstance(env, StableBaselinesVecEnv) else ImportedSB3VecEnv(env)


def _refuse_ids(ids: Ids | None) -> None:
    if ids is not None:
        raise ValueError(
            "VecEnvs of stable-baselines3 reset and step all their envs and take no ids; build a "
            "SyncVecEnv of single envs, or pass a function that makes a single env"
        )


def _imported_info(
    info: Mapping[str, Any], start: Mapping[str, Any], is_done: bool, is_truncated: bool
) -> dict[str, Any]:
    """Info with sekai's keys; that of a finished episode follows the info of the reset."""
    own = {
        key: value for key, value in info.items() if key not in (TERMINAL_OBSERVATION, TRUNCATED)
    }
    if not is_done:
        return own
    stats = own.get("episode")
    if isinstance(stats, Mapping) and {"r", "l"} <= stats.keys():
        own["episode"] = EpisodeStats(
            stats["r"], stats["l"], stats.get("t", 0.0), not is_truncated, is_truncated
        )
    final = owned(info[TERMINAL_OBSERVATION])
    return {**start, FINAL_OBSERVATION: final, FINAL_INFO: own, **carried_info(own, start)}
