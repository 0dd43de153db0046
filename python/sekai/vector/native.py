"""Envs that are one native object: a batch written in Rust that steps all of them in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend
from sekai.core.autoreset import carried_over
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import StateError
from sekai.spaces import Space
from sekai.vector.autoreset import FINAL_INFO, FINAL_OBSERVATION, Autoreset
from sekai.vector.base import BaseVecEnv
from sekai.vector.batching import map_arrays
from sekai.vector.buffers import StepBuffers
from sekai.vector.columns import Column, RowDicts
from sekai.vector.infos import ColumnInfos, DictInfos, Infos
from sekai.vector.seeding import Seeds
from sekai.vector.turn import in_turn
from sekai.vector.vec_env import Ids, Options

__all__ = ["NativeBatch", "NativeVecEnv"]

Columns = Mapping[str, NDArray[Any]]


@runtime_checkable
class NativeBatch(Protocol):
    """What a native batch offers. It writes into arrays that it is given and keeps none of them.

    A batch of a Dict or Tuple space is a dict or tuple of arrays. All arrays are C-contiguous.
    A call that raises has moved nothing; long calls release the GIL.
    """

    @property
    def num_envs(self) -> int:
        """How many envs the batch has."""

    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: Any,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Begin an episode in the envs `ids`, with one seed each or in their own streams.

        Their first observations go into their rows of `observations`, which has rows for all.
        """

    def step(
        self,
        actions: Any,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Any,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Let every env act once, except where `skip` is true: rows of those stay untouched.

        Where an episode ends and `final_observations` is given, its last observation goes there,
        the next episode begins, and its first observation goes into `observations`. Without
        `final_observations` the last observation goes into `observations` and nothing begins.
        """

    def clone_env(self, source: int, target: int) -> None:
        """Let env `target` become exactly what env `source` is, its random streams included."""

    def infos(self) -> Columns:
        """What the envs have to say after the last call: for each key a new array of N rows."""

    def final_infos(self) -> Columns:
        """The same for the ends of episodes that the last step has ended; other rows are void."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""


class NativeVecEnv(BaseVecEnv):
    """A native batch as a vector env: one call per step, straight into the result's arrays."""

    def __init__(
        self,
        batch: NativeBatch,
        observation_space: Space[Any],
        action_space: Space[Any],
        *,
        autoreset: Autoreset = "same_step",
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        """Take over a batch.

        Args:
            batch: the envs.
            observation_space: of one env.
            action_space: of one env.
            autoreset: when the next episode begins; see `Autoreset`.
            backend: who makes the arrays of results.
            copy: False lets a result share its arrays with the second result after it.
        """
        super().__init__(batch.num_envs, autoreset, "raise", backend, copy)
        self.batch = batch
        self._set_spaces({"observation_space": observation_space, "action_space": action_space})
        self._finished = np.zeros(self.num_envs, np.bool_)
        self._everyone = np.arange(self.num_envs)
        self._finals = self._observations.allocate(self.num_envs)
        self._rows = self._observations.allocate(self.num_envs)

    @in_turn
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        orders = self._orders(seed, options, ids)
        for has_seed in (True, False):
            chosen = [order for order in orders if (order[1] is not None) is has_seed]
            if chosen:
                self.batch.reset(
                    np.array([place for place, _, _ in chosen], np.int64),
                    np.array([one for _, one, _ in chosen], np.uint64) if has_seed else None,
                    self._rows,
                    None if options is None else [asked for _, _, asked in chosen],
                )
        places = np.array([place for place, _, _ in orders], np.int64)
        self._finished[places] = False
        observations = map_arrays(lambda array: array[places], self._rows)
        columns = {
            key: Column(np.arange(len(places)), values[places])
            for key, values in self.batch.infos().items()
        }
        return self._reset_batch(orders, observations, ColumnInfos(len(places), columns))

    @in_turn
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids` alone, act once, in one native call."""
        places = self._chosen(ids)
        acts = self._checked_actions(actions, out, places)
        if places is not None:
            return self._step_some(acts, places, out)
        target = self._target(out)
        finals = None
        if self.autoreset == "same_step":
            finals = (
                self._finals if target.final_observations is None else target.final_observations
            )
        skip = self._finished if self.autoreset == "next_step" and self._finished.any() else None
        self._step_native(acts, target, finals, skip)
        if skip is not None:
            self._begin_next(target, skip)
        ended = target.terminated | target.truncated
        if self.autoreset == "next_step":
            self._finished = ended
        infos = self._infos_of(ended.nonzero()[0] if finals is not None else None, finals)
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos
        )

    def _step_some(
        self, actions: Any, places: list[int], out: StepBuffers | None
    ) -> VecStepResult[Any]:
        """Let some envs act: the batch skips the others."""
        rows = StepBuffers.allocate(self._observations, self.num_envs)
        begins = np.zeros(self.num_envs, np.bool_)
        if places:
            skip = np.ones(self.num_envs, np.bool_)
            skip[places] = False
            if self.autoreset == "next_step":
                begins = ~skip & self._finished
                skip |= begins
            self._step_batch_of(actions, places, rows, skip)
        if begins.any():
            self._begin_next(rows, begins)
        ended = rows.terminated | rows.truncated
        if self.autoreset == "next_step":
            self._finished[places] = ended[places]
        finals = self._finals if self.autoreset == "same_step" else None
        everyone = self._infos_of(ended.nonzero()[0] if finals is not None else None, finals)
        infos = DictInfos([everyone[place] for place in places])
        taken = rows.taken(places)
        if out is not None:
            out.fill(taken)
            out.fill_finals(infos)
        target = out or taken
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, places
        )

    def _step_batch_of(
        self, actions: Any, places: list[int], rows: StepBuffers, skip: NDArray[np.bool_]
    ) -> None:
        def spread(chosen: NDArray[Any]) -> NDArray[Any]:
            # Who is skipped gets an action too, which must be one that nobody refuses.
            everyone = np.repeat(chosen[:1], self.num_envs, axis=0)
            everyone[places] = chosen
            return everyone

        finals = self._finals if self.autoreset == "same_step" else None
        self._step_native(map_arrays(spread, actions), rows, finals, skip)

    def _step_native(
        self, actions: Any, rows: StepBuffers, finals: Any, skip: NDArray[np.bool_] | None
    ) -> None:
        try:
            self.batch.step(
                actions,
                rows.observations,
                rows.rewards,
                rows.terminated,
                rows.truncated,
                finals,
                skip,
            )
        except KeyboardInterrupt:
            # Between two slices of a long step: some envs have acted and others have not.
            self._interrupted()
            raise

    @in_turn
    def clone(self, source: int, target: int) -> None:
        """Let env `target` become exactly what env `source` is: a branch of a search tree."""
        self._check_open()
        self.batch.clone_env(source, target)
        self._finished[target] = self._finished[source]

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of the batch: an item for each env, or the same for all."""
        self._check_open()
        return self._per_env(getattr(self.batch, name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of the batch."""
        values = self._per_env_values(value, per_env)
        setattr(self.batch, name, values if per_env else value)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of the batch: it returns an item for each env, or the same for all."""
        self._check_open()
        return self._per_env(getattr(self.batch, name)(*args, **kwargs))

    @in_turn
    def close(self) -> None:
        """Let go of the batch. Closing twice is no error."""
        if not self._closed:
            self._closed = self._is_blocked = True
            close: Callable[[], None] | None = getattr(self.batch, "close", None)
            if close is not None:
                close()

    def _target(self, out: StepBuffers | None) -> StepBuffers:
        if out is not None:
            return out
        if not self.copy:
            return self._spare_buffers()
        count = self.num_envs
        return StepBuffers(
            map_arrays(np.empty_like, self._rows),
            np.empty(count),
            np.empty(count, np.bool_),
            np.empty(count, np.bool_),
        )

    def _begin_next(self, target: StepBuffers, finished: NDArray[np.bool_]) -> None:
        """Let the episodes begin that the step before this one left at an end."""
        self.batch.reset(np.flatnonzero(finished), None, target.observations, None)
        target.rewards[finished] = 0.0
        target.terminated[finished] = False
        target.truncated[finished] = False

    def _infos_of(self, ended: NDArray[np.int64] | None, finals: Any) -> Infos:
        columns = {
            key: Column(self._everyone, values) for key, values in self.batch.infos().items()
        }
        if ended is not None and ended.size:
            # Only the rows that ended are copied: the buffer is written again by the next step.
            last = map_arrays(lambda array: array[ended], finals)
            rows = self._observations.lazy_rows(last, ended.size)
            told = {key: values[ended] for key, values in self.batch.final_infos().items()}
            columns[FINAL_OBSERVATION] = Column(ended, rows)
            columns[FINAL_INFO] = Column(ended, RowDicts(ended.size, told))
            for key, values in carried_over(told, columns).items():
                columns[key] = Column(ended, values)
        return ColumnInfos(self.num_envs, columns)

    def _per_env(self, value: Any) -> list[Any]:
        is_list = isinstance(value, (list, tuple, np.ndarray)) and len(value) == self.num_envs
        return list(value) if is_list else [value] * self.num_envs

    def _env_states(self) -> Any:
        return {"batch": self.batch.state_dict(), "finished": self._finished.copy()}

    def _load_env_states(self, states: Any) -> None:
        if not isinstance(states, Mapping) or states.keys() != {"batch", "finished"}:
            raise StateError("the state of a native batch was wanted, found that of single envs")
        self.batch.load_state_dict(states["batch"])
        self._finished = states["finished"].copy()
