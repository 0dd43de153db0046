"""Adapters between sekai vector envs and gymnasium vector envs."""

from __future__ import annotations

import copy
import operator
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sekai.compat import advice
from sekai.compat.gymnasium.spaces import (
    owned,
    space_from_gymnasium,
    space_to_gymnasium,
    value_from_gymnasium,
    value_to_gymnasium,
)
from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, carried_info
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import StateError
from sekai.vector import StepBuffers, SyncVecEnv, VecEnv
from sekai.vector.infos import DictInfos
from sekai.vector.vec_env import Ids, Options, Seeds, checked_ids

__all__ = [
    "AUTORESET_MODES",
    "ExportedVectorEnv",
    "copied_env",
    "from_gymnasium_vector",
    "gymnasium_vector",
    "ignore_interrupts",
    "restored_env",
    "same_step_vector",
    "split_infos",
    "to_gymnasium_keys",
    "written",
]

AUTORESET_MODES = {
    "same_step": gymnasium.vector.AutoresetMode.SAME_STEP,
    "next_step": gymnasium.vector.AutoresetMode.NEXT_STEP,
    "disabled": gymnasium.vector.AutoresetMode.DISABLED,
}
"""Autoreset modes of sekai and of gymnasium."""


class ExportedVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """`gymnasium.vector.VectorEnv` around a `sekai.vector.VecEnv`, which is its `sekai_env`.

    One seed is spread over the envs by sekai's rule, not as seed, seed + 1, ...; a list of seeds is
    used as it is.
    """

    def __init__(self, env: VecEnv) -> None:
        if not isinstance(env, VecEnv):
            raise TypeError(f"env must be a sekai vector env, got {env!r}{advice(env)}")
        self.sekai_env = env
        self.num_envs = env.num_envs
        self.single_observation_space = space_to_gymnasium(env.observation_space)
        self.single_action_space = space_to_gymnasium(env.action_space)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.metadata = {"autoreset_mode": AUTORESET_MODES[env.autoreset], "render_modes": []}
        self._observations: Any = None

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all envs, or in those of `options["reset_mask"]`."""
        if isinstance(seed, int):
            super().reset(seed=seed)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        ids = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        some = None if mask is None else ids
        result = self.sekai_env.reset(seed=_seeds_of(seed, mask), options=options or None, ids=some)
        observations = self._observed(result.observations)
        if mask is not None:
            observations = _with_rows(owned(self._observations), ids, observations)
        self._observations = observations
        return observations, self._joined(dict(zip(ids, result.infos, strict=True)))

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Step every env."""
        actions = value_from_gymnasium(self.sekai_env.action_space, actions)
        result = self.sekai_env.step(actions)
        self._observations = self._observed(result.observations)
        infos = self._joined(dict(enumerate(result.infos)))
        return self._observations, result.rewards, result.terminated, result.truncated, infos

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each env."""
        return tuple(self.sekai_env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Attribute of each env."""
        return tuple(self.sekai_env.get_attr(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: one value for all, or a list or tuple of them."""
        self.sekai_env.set_attr(name, values, per_env=isinstance(values, (list, tuple)))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.sekai_env.close()

    def _observed(self, observations: Any) -> Any:
        return value_to_gymnasium(self.sekai_env.observation_space, observations)

    def _joined(self, infos: dict[int, dict[str, Any]]) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for index, info in infos.items():
            named = to_gymnasium_keys(info)
            if FINAL_OBS in named:
                space = self.sekai_env.observation_space
                named[FINAL_OBS] = value_to_gymnasium(space, named[FINAL_OBS])
            joined = self._add_info(joined, named, index)
        return joined


def gymnasium_vector(env: VecEnv) -> ExportedVectorEnv:
    """Convert a sekai vector env to a `gymnasium.vector.VectorEnv` with its autoreset mode."""
    return ExportedVectorEnv(env)


def _seeds_of(seed: Any, mask: Any) -> Any:
    """Seeds of the envs that `mask` selects; gymnasium passes one for every env."""
    if mask is None or seed is None or isinstance(seed, int):
        return seed
    return [seed[index] for index in np.flatnonzero(mask)]


def _with_rows(batch: Any, ids: Any, rows: Any) -> Any:
    if isinstance(batch, dict):
        return {key: _with_rows(part, ids, rows[key]) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_with_rows(part, ids, row) for part, row in zip(batch, rows, strict=True))
    batch[ids] = rows
    return batch


FINAL_OBS = "final_obs"
"""Key of the final observation in gymnasium."""


def to_gymnasium_keys(info: Mapping[str, Any]) -> dict[str, Any]:
    """Info of one env with gymnasium's key of the final observation."""
    return {FINAL_OBS if key == FINAL_OBSERVATION else key: value for key, value in info.items()}


def split_infos(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Split infos of a gymnasium vector env into one dict per env, with sekai's keys.

    An entry `x` belongs to the envs for which `_x` is true. Without `_x` it belongs to all: row by
    row if it has a row per env, else as a whole. The info of the last step of an episode is at the
    top level too, as in sekai's vector envs.
    """
    return [_with_last(info) for info in _split(infos, count)]


def _split(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    dicts: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in infos.items():
        if not _is_mask_name(key, infos):
            name = FINAL_OBSERVATION if key == FINAL_OBS else key
            for index, entry in _entries(value, infos.get(f"_{key}"), count):
                dicts[index][name] = entry
    return dicts


def _with_last(info: dict[str, Any]) -> dict[str, Any]:
    last = info.get(FINAL_INFO)
    return {**info, **carried_info(last, info)} if isinstance(last, Mapping) else info


def _is_mask_name(key: str, infos: Mapping[str, Any]) -> bool:
    return key.startswith("_") and key[1:] in infos


def _entries(value: Any, mask: Any, count: int) -> Sequence[tuple[int, Any]]:
    held = range(count) if mask is None else np.flatnonzero(mask).tolist()
    if isinstance(value, Mapping):
        parts = _split(value, count)
        return [(index, parts[index]) for index in held]
    has_rows = isinstance(value, (np.ndarray, list, tuple)) and len(value) == count
    return [(index, value[index] if has_rows else value) for index in held]


SEKAI_MODES = {mode: name for name, mode in AUTORESET_MODES.items()}


class ImportedVecEnv(VecEnv):
    """`sekai.vector.VecEnv` around a `gymnasium.vector.VectorEnv`, its `gymnasium_env`.

    Seeds are passed unchanged. `state_dict` is a deep copy of the vector env, which needs its envs
    in this process. Workers of an `AsyncVectorEnv` ignore Ctrl-C from then on.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(env, gymnasium.vector.VectorEnv):
            raise TypeError(f"env must be a gymnasium.vector.VectorEnv, got {env!r}{advice(env)}")
        mode = env.metadata.get("autoreset_mode")
        if mode not in SEKAI_MODES:
            raise ValueError(
                f"metadata['autoreset_mode'] must be one of {list(SEKAI_MODES)}, got {mode!r}; set "
                f"it in the vector env to the mode by which its envs are reset"
            )
        self.gymnasium_env = env
        self.num_envs = env.num_envs
        self.observation_space = space_from_gymnasium(env.single_observation_space)
        self.action_space = space_from_gymnasium(env.single_action_space)
        self.autoreset = SEKAI_MODES[mode]  # type: ignore[assignment]
        if isinstance(env.unwrapped, gymnasium.vector.AsyncVectorEnv):
            ignore_interrupts(env.unwrapped)

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Start an episode in every env, or in those of `ids` alone."""
        if options is not None and not isinstance(options, dict):
            raise ValueError(
                "gymnasium vector envs take one dict of options for all envs, got several"
            )
        chosen = checked_ids(ids, self.num_envs)
        env_options = dict(options or {})
        if ids is not None:
            env_options["reset_mask"] = np.isin(np.arange(self.num_envs), chosen)
        seeds = _seeds_by_env(seed, ids, chosen, self.num_envs)
        observations, infos = self.gymnasium_env.reset(seed=seeds, options=env_options or None)
        dicts = split_infos(infos, self.num_envs)
        if ids is None:
            return VecResetResult(owned(observations), dicts)
        return VecResetResult(_rows(observations, chosen), [dicts[index] for index in chosen])

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step every env; gymnasium vector envs cannot step some alone."""
        if ids is not None:
            raise ValueError(
                "gymnasium vector envs step all their envs and take no ids; convert the single "
                "envs and build a SyncVecEnv of them"
            )
        observations, rewards, terminated, truncated, infos = self.gymnasium_env.step(actions)
        result: VecStepResult[Any] = VecStepResult(
            owned(observations),
            np.array(rewards, dtype=np.float64),
            np.array(terminated, dtype=np.bool_),
            np.array(truncated, dtype=np.bool_),
            split_infos(infos, self.num_envs),
        )
        return result if out is None else written(result, out)

    def get_attr(self, name: str) -> list[Any]:
        """Attribute of each env."""
        return list(self._inner("get_attr")(name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env."""
        values = list(value) if per_env else [value] * self.num_envs
        self._inner("set_attr")(name, values)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return list(self._inner("call")(name, *args, **kwargs))

    def state_dict(self) -> dict[str, Any]:
        """State from which all envs continue."""
        if isinstance(self.gymnasium_env, gymnasium.vector.AsyncVectorEnv):
            raise StateError(
                "state of an AsyncVectorEnv is not available: its envs are in other processes"
            )
        return {"gymnasium_env": copied_env(self.gymnasium_env)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.gymnasium_env = restored_env(self.gymnasium_env, state_dict.get("gymnasium_env"))

    def close(self) -> None:
        """Close every env."""
        self.gymnasium_env.close()

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self.gymnasium_env.closed

    def _inner(self, name: str) -> Any:
        method = getattr(self.gymnasium_env, name, None)
        if method is None:
            raise AttributeError(
                f"{type(self.gymnasium_env).__name__} has no {name}() for single envs"
            )
        return method


def from_gymnasium_vector(
    env: gymnasium.vector.VectorEnv[Any, Any, Any] | str, **kwargs: Any
) -> ImportedVecEnv:
    """Convert a gymnasium vector env to a sekai vector env.

    Training needs an autoreset in the same step; see `sekai.compat.adapt_vector`.

    Args:
        env: the vector env, or an id for `gymnasium.make_vec`.
        kwargs: further arguments of `gymnasium.make_vec`.
    """
    if isinstance(env, str):
        return ImportedVecEnv(gymnasium.make_vec(env, **kwargs))
    if kwargs:
        raise TypeError(f"an env instance takes no further arguments, got {kwargs}")
    return ImportedVecEnv(env)


def same_step_vector(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> VecEnv:
    """Convert a gymnasium vector env to one that resets finished envs in the same step.

    Single envs of a `SyncVectorEnv`, in any mode, are stepped by a `SyncVecEnv`.

    Raises:
        ValueError: the vector env resets in the next step, and its envs are not at hand.
    """
    if isinstance(env, ExportedVectorEnv):
        return env.sekai_env
    if type(env) is gymnasium.vector.SyncVectorEnv:
        from sekai.compat.gymnasium.envs import from_gymnasium

        return SyncVecEnv([partial(from_gymnasium, own) for own in env.envs])
    mode = env.metadata.get("autoreset_mode")
    if mode != gymnasium.vector.AutoresetMode.SAME_STEP:
        raise ValueError(
            f"{type(env).__name__} has autoreset mode {mode}; training needs SAME_STEP: make it by "
            "gymnasium.make_vec(..., vectorization_mode='sync', vector_kwargs={'autoreset_mode': "
            "gymnasium.vector.AutoresetMode.SAME_STEP}), or pass a function that makes a single env"
        )
    return from_gymnasium_vector(env)


def _seeds_by_env(seed: Any, ids: Any, chosen: list[int], count: int) -> Any:
    """One seed for every env, as gymnasium expects, also for those that are not reset."""
    if ids is None or seed is None or isinstance(seed, int):
        return seed
    seeds: list[int | None] = [None] * count
    for index, env_seed in zip(chosen, seed, strict=True):
        seeds[index] = env_seed
    return seeds


def _rows(batch: Any, ids: list[int]) -> Any:
    if isinstance(batch, dict):
        return {key: _rows(part, ids) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_rows(part, ids) for part in batch)
    return batch[ids]


def written(result: VecStepResult[Any], out: StepBuffers) -> VecStepResult[Any]:
    """Copy a result into the caller's arrays, and return a result that holds them."""
    buffers = (result.observations, result.rewards, result.terminated, result.truncated)
    out.fill(StepBuffers(*buffers))
    out.fill_finals(DictInfos(list(result.infos)))
    return VecStepResult(out.observations, out.rewards, out.terminated, out.truncated, result.infos)


def restored_env(env: Any, saved: Any) -> Any:
    """Copy of a saved env that replaces `env`; `StateError` if it is of another class."""
    if type(saved) is not type(env):
        raise StateError(
            f"state must be of a {type(env).__name__}, got one of a {type(saved).__name__}"
        )
    return copied_env(saved)


def ignore_interrupts(env: Any) -> None:
    """Make the workers of a vector env ignore Ctrl-C, as those of `ProcVecEnv` do.

    Ctrl-C reaches the whole process group. Workers of gymnasium and stable-baselines3 would end in
    the middle of a step, and training could not complete its iteration and save it.
    """
    env.get_attr(_InterruptGuard())


class _InterruptGuard:
    """Name of an attribute of envs; a process that unpickles it ignores Ctrl-C.

    Workers run no code but methods of their envs, and those are left as they are.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (("action_space", _IgnoredInterrupt()), 0)


class _IgnoredInterrupt:
    def __reduce__(self) -> tuple[Any, ...]:
        return signal.signal, (signal.SIGINT, signal.SIG_IGN)


def copied_env(env: Any) -> Any:
    """Deep copy of an env; `StateError` if it cannot be copied."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise StateError(f"{type(env).__name__} cannot be copied into a state: {error}") from error
