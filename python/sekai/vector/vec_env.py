"""The contract of a vector env: N envs of one kind that act together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.backend import BackendOps
from sekai.core.closing import Closing
from sekai.core.result import VecResetResult, VecStepResult
from sekai.spaces import Space, batch_space
from sekai.vector.autoreset import Autoreset
from sekai.vector.buffers import StepBuffers
from sekai.vector.seeding import Seeds

__all__ = ["Ids", "Options", "VecEnv", "checked_ids"]

Options: TypeAlias = "dict[str, Any] | Sequence[dict[str, Any] | None] | None"
"""Reset options for all envs, or a list with those of each."""

Ids: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]] | NDArray[np.bool_]"
"""Some of the envs: their indices, or a mask with one flag per env."""


class VecEnv(Closing, ABC):
    """N envs that act together and give back batches: results hold arrays with a row per env.

    `observation_space` and `action_space` are those of one env; `batched_observation_space` and
    `batched_action_space` those of the whole batch.
    """

    num_envs: int
    observation_space: Space[Any]
    action_space: Space[Any]
    autoreset: Autoreset
    backend: BackendOps
    """Who makes the arrays of results. What `infos` hold is the envs' own, and NumPy's."""

    @abstractmethod
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone.

        Args:
            seed: one seed for the vector, from which each env gets its own by its index alone;
                or one seed per env; or None, with which every stream goes on.
            options: what the envs' own `reset` is given.
            ids: which envs; the result then has a row for each of them, in their order.
        """

    @abstractmethod
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env act once, or those of `ids` alone.

        Args:
            actions: one per env that acts, as a batch or one by one.
            ids: which envs; the result then has a row for each of them, in their order, and the
                others do not move.
            out: arrays to write the result into; the result then holds those very arrays.
        """

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env; an `AsyncVecEnv` does not block the event loop."""
        return self.reset(seed=seed, options=options, ids=ids)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let envs act once; an `AsyncVecEnv` does not block the event loop."""
        return self.step(actions, ids=ids, out=out)

    @abstractmethod
    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""

    @abstractmethod
    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, in the outermost layer that has it.

        Args:
            name: the attribute.
            value: what to set it to.
            per_env: whether `value` is a sequence with one value for each env.
        """

    @abstractmethod
    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue all envs from here, bit for bit."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""

    @abstractmethod
    def close(self) -> None:
        """Close every env. Closing twice is no error."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the vector has been closed."""

    @property
    def single_observation_space(self) -> Space[Any]:
        """The space of one env's observations: `observation_space` by its longer name."""
        return self.observation_space

    @property
    def single_action_space(self) -> Space[Any]:
        """The space of one env's actions: `action_space` by its longer name."""
        return self.action_space

    @cached_property
    def batched_observation_space(self) -> Space[Any]:
        """The space of the observations of all envs."""
        return batch_space(self.observation_space, self.num_envs)

    @cached_property
    def batched_action_space(self) -> Space[Any]:
        """The space of the actions of all envs."""
        return batch_space(self.action_space, self.num_envs)

    @property
    def unwrapped(self) -> VecEnv:
        """The vector env underneath all wrappers."""
        return self

    def __iter__(self) -> Iterator[VecEnv]:
        """The layers of the stack, from this one inwards."""
        yield self

    def __len__(self) -> int:
        return self.num_envs

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs} envs>"


def checked_ids(ids: Ids | None, count: int) -> list[int]:
    """The indices that `ids` names, or a `ValueError` if one is not there or is there twice."""
    if ids is None:
        return list(range(count))
    given = np.asarray(ids)
    if given.dtype == bool:
        if given.shape != (count,):
            raise ValueError(f"a mask of ids needs {count} flags, found shape {given.shape}")
        given = np.flatnonzero(given)
    indices: list[int] = given.tolist() if given.size else []
    strange = [index for index in indices if not isinstance(index, int) or not 0 <= index < count]
    if strange:
        raise ValueError(f"ids must be between 0 and {count - 1}, found {strange}")
    if len(set(indices)) != len(indices):
        raise ValueError(f"ids must name each env once, found {indices}")
    return indices
