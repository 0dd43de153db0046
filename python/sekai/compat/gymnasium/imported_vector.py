"""A vector env of gymnasium as one of ours."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium.vector
import numpy as np

from sekai.compat.gymnasium.exported_vector import AUTORESET_MODES
from sekai.compat.gymnasium.infos import split_infos
from sekai.compat.gymnasium.spaces import space_from_gymnasium
from sekai.compat.gymnasium.values import owned
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import StateError
from sekai.vector import StepBuffers, VecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.vec_env import Ids, Options, checked_ids

__all__ = ["ImportedVecEnv", "from_gymnasium_vector"]

OUR_MODES = {mode: name for name, mode in AUTORESET_MODES.items()}


class ImportedVecEnv(VecEnv):
    """A `sekai.vector.VecEnv` around a `gymnasium.vector.VectorEnv`, its `gymnasium_env`.

    Seeds go to gymnasium as they are. `state_dict` takes a deep copy of the vector env, which
    works while its envs live in this process.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(env, gymnasium.vector.VectorEnv):
            raise TypeError(f"a gymnasium.vector.VectorEnv was wanted, found {env!r}")
        mode = env.metadata.get("autoreset_mode")
        if mode not in OUR_MODES:
            raise ValueError(
                f"metadata['autoreset_mode'] must be one of {list(OUR_MODES)}, was {mode!r}"
            )
        self.gymnasium_env = env
        self.num_envs = env.num_envs
        self.observation_space = space_from_gymnasium(env.single_observation_space)
        self.action_space = space_from_gymnasium(env.single_action_space)
        self.autoreset = OUR_MODES[mode]  # type: ignore[assignment]

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        if options is not None and not isinstance(options, dict):
            raise ValueError("gymnasium's vector envs take one dict of options for all envs")
        chosen = checked_ids(ids, self.num_envs)
        given = dict(options or {})
        if ids is not None:
            given["reset_mask"] = np.isin(np.arange(self.num_envs), chosen)
        seeds = _seeds_in_place(seed, ids, chosen, self.num_envs)
        observations, infos = self.gymnasium_env.reset(seed=seeds, options=given or None)
        dicts = split_infos(infos, self.num_envs)
        if ids is None:
            return VecResetResult(owned(observations), dicts)
        return VecResetResult(_rows(observations, chosen), [dicts[index] for index in chosen])

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env act once; gymnasium's vector envs cannot let some act alone."""
        if ids is not None:
            raise ValueError(
                "gymnasium's vector envs step all their envs at once and take no ids: "
                "import the single envs and build a SyncVecEnv of them"
            )
        observations, rewards, terminated, truncated, infos = self.gymnasium_env.step(actions)
        result: VecStepResult[Any] = VecStepResult(
            owned(observations),
            np.array(rewards, dtype=np.float64),
            np.array(terminated, dtype=np.bool_),
            np.array(truncated, dtype=np.bool_),
            split_infos(infos, self.num_envs),
        )
        return result if out is None else _written(result, out)

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return list(self._inner("get_attr")(name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env."""
        values = list(value) if per_env else [value] * self.num_envs
        self._inner("set_attr")(name, values)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        return list(self._inner("call")(name, *args, **kwargs))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue all envs from here."""
        if isinstance(self.gymnasium_env, gymnasium.vector.AsyncVectorEnv):
            raise StateError("the envs of an AsyncVectorEnv live in other processes")
        return {"gymnasium_env": _copied(self.gymnasium_env)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken."""
        found = state_dict.get("gymnasium_env")
        if type(found) is not type(self.gymnasium_env):
            raise StateError(
                f"a state of {type(self.gymnasium_env).__name__} was wanted, found one of "
                f"{type(found).__name__}"
            )
        self.gymnasium_env = _copied(found)

    def close(self) -> None:
        """Close every env."""
        self.gymnasium_env.close()

    @property
    def closed(self) -> bool:
        """Whether the vector has been closed."""
        return self.gymnasium_env.closed

    def _inner(self, name: str) -> Any:
        method = getattr(self.gymnasium_env, name, None)
        if method is None:
            raise AttributeError(
                f"{type(self.gymnasium_env).__name__} has no single envs to ask: no {name}()"
            )
        return method


def from_gymnasium_vector(
    env: gymnasium.vector.VectorEnv[Any, Any, Any] | str, **kwargs: Any
) -> ImportedVecEnv:
    """A vector env of gymnasium as one of ours.

    Args:
        env: the vector env, or the id of which `gymnasium.make_vec` makes one.
        kwargs: what `gymnasium.make_vec` is given beside the id.
    """
    if isinstance(env, str):
        return ImportedVecEnv(gymnasium.make_vec(env, **kwargs))
    if kwargs:
        raise TypeError(f"an env that is made already takes no arguments, was given {kwargs}")
    return ImportedVecEnv(env)


def _seeds_in_place(seed: Any, ids: Any, chosen: list[int], count: int) -> Any:
    """One seed for every env, as gymnasium wants them, also for those that are not reset."""
    if ids is None or seed is None or isinstance(seed, int):
        return seed
    seeds: list[int | None] = [None] * count
    for index, one in zip(chosen, seed, strict=True):
        seeds[index] = one
    return seeds


def _rows(batch: Any, ids: list[int]) -> Any:
    if isinstance(batch, dict):
        return {key: _rows(part, ids) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_rows(part, ids) for part in batch)
    return batch[ids]


def _written(result: VecStepResult[Any], out: StepBuffers) -> VecStepResult[Any]:
    _write(result.observations, out.observations)
    np.copyto(out.rewards, result.rewards)
    np.copyto(out.terminated, result.terminated)
    np.copyto(out.truncated, result.truncated)
    return VecStepResult(out.observations, out.rewards, out.terminated, out.truncated, result.infos)


def _write(values: Any, buffers: Any) -> None:
    if isinstance(values, dict):
        for key, part in values.items():
            _write(part, buffers[key])
    elif isinstance(values, tuple):
        for part, buffer in zip(values, buffers, strict=True):
            _write(part, buffer)
    else:
        np.copyto(buffers, values)


def _copied(env: Any) -> Any:
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise StateError(f"{type(env).__name__} cannot be copied into a state: {error}") from error
