"""Vector env API: N envs of one kind stepped together, and their seeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.backend import BackendOps
from sekai.core.autoreset import Autoreset
from sekai.core.base import Closeable
from sekai.core.result import VecResetResult, VecStepResult
from sekai.spaces import Space, batch_space
from sekai.vector.batching import StepBuffers

Options: TypeAlias = "dict[str, Any] | Sequence[dict[str, Any] | None] | None"
"""Reset options of all envs, or a list with those of each."""

Ids: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]] | NDArray[np.bool_]"
"""Some of the envs: their indices, or a mask with one flag per env."""


class VecEnv(Closeable, ABC):
    """N envs stepped together; results hold arrays with a row per env.

    `observation_space` and `action_space` are those of one env; `batched_observation_space` and
    `batched_action_space` those of the whole batch.
    """

    num_envs: int
    observation_space: Space[Any]
    action_space: Space[Any]
    autoreset: Autoreset
    backend: BackendOps
    """Array backend of results. Infos are returned as the envs create them."""

    @abstractmethod
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`.

        Args:
            seed: one seed, from which each env's seed is derived by its index; or one seed per env;
                or None, which continues the current generators.
            options: options of the envs' own `reset`.
            ids: envs to reset; the result has a row for each of them, in their order.
        """

    @abstractmethod
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`.

        Args:
            actions: one per env that acts, as a batch or one by one.
            ids: envs to step; the result has a row for each of them, in their order.
            out: arrays to write the result into; the result holds those very arrays.
        """

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset envs; an `AsyncVecEnv` does not block the event loop."""
        return self.reset(seed=seed, options=options, ids=ids)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step envs; an `AsyncVecEnv` does not block the event loop."""
        return self.step(actions, ids=ids, out=out)

    @abstractmethod
    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""

    @abstractmethod
    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it.

        Args:
            name: name of the attribute.
            value: new value.
            per_env: True if `value` is a sequence with one value per env.
        """

    @abstractmethod
    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which all envs continue bit for bit."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""

    @abstractmethod
    def close(self) -> None:
        """Close every env; a second call does nothing."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if the vector env has been closed."""

    @property
    def single_observation_space(self) -> Space[Any]:
        """Observation space of one env, same as `observation_space`."""
        return self.observation_space

    @property
    def single_action_space(self) -> Space[Any]:
        """Action space of one env, same as `action_space`."""
        return self.action_space

    @cached_property
    def batched_observation_space(self) -> Space[Any]:
        """Space of the observations of all envs."""
        return batch_space(self.observation_space, self.num_envs)

    @cached_property
    def batched_action_space(self) -> Space[Any]:
        """Space of the actions of all envs."""
        return batch_space(self.action_space, self.num_envs)

    @property
    def unwrapped(self) -> VecEnv:
        """Vector env inside all wrappers."""
        return self

    def __iter__(self) -> Iterator[VecEnv]:
        """Iterate over the wrappers and the vector env, outermost first."""
        yield self

    def __len__(self) -> int:
        return self.num_envs

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs} envs>"


def checked_ids(ids: Ids | None, count: int) -> list[int]:
    """Return the indices in `ids`, or raise `ValueError` if one is unknown or repeated."""
    if ids is None:
        return list(range(count))
    array = np.asarray(ids)
    if array.dtype == bool:
        if array.shape != (count,):
            raise ValueError(f"mask of ids must have shape ({count},), got {array.shape}")
        array = np.flatnonzero(array)
    indices: list[int] = array.tolist() if array.size else []
    invalid = [index for index in indices if not isinstance(index, int) or not 0 <= index < count]
    if invalid:
        raise ValueError(f"ids must be between 0 and {count - 1}, got {invalid}")
    if len(set(indices)) != len(indices):
        raise ValueError(f"ids must be unique, got {indices}")
    return indices


Seeds: TypeAlias = "int | Sequence[int | None] | None"
"""One seed for all envs, one per env, or None to continue the current generators."""

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def env_seed(seed: int, index: int) -> int:
    """Return the seed of env `index` in a vector env that is reset with `seed`.

    The seed is hashed first and combined with the index: with `seed + index`, env 1 of seed 0 would
    repeat env 0 of seed 1.
    """
    return _mixed(_spread(seed) + (index + 1) * GOLDEN) >> 1


def restart_seed(seed: int | None, restarts: int) -> int | None:
    """Return the seed of the `restarts`-th restart of an env, derived from its own seed."""
    return None if seed is None else _mixed(_spread(seed) ^ _mixed(restarts * GOLDEN)) >> 1


def per_env_seeds(seed: Seeds, ids: Sequence[int]) -> list[int | None]:
    """Return one seed, or None, for each env in `ids`."""
    if seed is None:
        return [None] * len(ids)
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        base = _spread(_checked(seed))
        return [_mixed(base + (index + 1) * GOLDEN) >> 1 for index in ids]
    if isinstance(seed, (str, bytes, bool)) or not hasattr(seed, "__len__"):
        raise ValueError(
            f"seed must be an integer, a sequence of one seed per env, or None, got {seed!r}"
        )
    if len(seed) != len(ids):
        raise ValueError(f"expected {len(ids)} seeds, one per env, got {len(seed)}")
    return [None if value is None else _checked(value) for value in seed]


def per_env_options(
    options: dict[str, Any] | Sequence[dict[str, Any] | None] | None, count: int
) -> list[dict[str, Any] | None]:
    """Return the reset options of each of `count` envs."""
    if options is None or isinstance(options, dict):
        return [options] * count
    if len(options) != count:
        raise ValueError(f"expected {count} options, one per env, got {len(options)}")
    return list(options)


def _checked(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"a seed must be a non-negative integer, got {seed!r}")
    return int(seed)


def _spread(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _mixed(word: int) -> int:
    """SplitMix64 finalizer: a bijection of 64-bit words."""
    word &= WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)
