"""Native vector env: a batch written in Rust that steps all envs in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend
from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION, Autoreset, carried_info
from sekai.core.result import VecResetResult, VecStepResult
from sekai.envs.native_env import NativeBatch
from sekai.error import StateError
from sekai.spaces import Space
from sekai.vector.base import BaseVecEnv, exclusive
from sekai.vector.batching import StepBuffers, map_arrays
from sekai.vector.infos import Column, ColumnInfos, DictInfos, Infos, RowDicts
from sekai.vector.vec_env import Ids, Options, Seeds

__all__ = ["NativeBatch", "NativeVecEnv"]


class NativeVecEnv(BaseVecEnv):
    """Vector env of a native batch: one native call per step, directly into the result.

    Args:
        batch: native batch.
        observation_space: observation space of one env.
        action_space: action space of one env.
        autoreset: autoreset mode; see `Autoreset`.
        backend: array backend of results.
        copy: False lets a result share its arrays with the second result after it.
    """

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
        super().__init__(batch.num_envs, autoreset, "raise", backend, copy)
        self.batch = batch
        self._set_spaces({"observation_space": observation_space, "action_space": action_space})
        self._finished = np.zeros(self.num_envs, np.bool_)
        self._all_indices = np.arange(self.num_envs)
        self._finals = self._observations.allocate(self.num_envs)
        self._rows = self._observations.allocate(self.num_envs)

    @exclusive
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        orders = self._orders(seed, options, ids)
        for has_seed in (True, False):
            chosen = [order for order in orders if (order[1] is not None) is has_seed]
            if chosen:
                self.batch.reset(
                    np.array([index for index, _, _ in chosen], np.int64),
                    np.array([env_seed for _, env_seed, _ in chosen], np.uint64)
                    if has_seed
                    else None,
                    self._rows,
                    None if options is None else [env_options for _, _, env_options in chosen],
                )
        indices = np.array([index for index, _, _ in orders], np.int64)
        self._finished[indices] = False
        observations = map_arrays(lambda array: array[indices], self._rows)
        columns = {
            key: Column(np.arange(len(indices)), values[indices])
            for key, values in self.batch.infos().items()
        }
        return self._reset_batch(orders, observations, ColumnInfos(len(indices), columns))

    @exclusive
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        indices = self._chosen(ids)
        acts = self._checked_actions(actions, out, indices)
        if indices is not None:
            return self._step_some(acts, indices, out)
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
        self, actions: Any, indices: list[int], out: StepBuffers | None
    ) -> VecStepResult[Any]:
        """Step some envs; the batch skips the others."""
        rows = StepBuffers.allocate(self._observations, self.num_envs)
        begins = np.zeros(self.num_envs, np.bool_)
        if indices:
            skip = np.ones(self.num_envs, np.bool_)
            skip[indices] = False
            if self.autoreset == "next_step":
                begins = ~skip & self._finished
                skip |= begins
            self._step_batch_of(actions, indices, rows, skip)
        if begins.any():
            self._begin_next(rows, begins)
        ended = rows.terminated | rows.truncated
        if self.autoreset == "next_step":
            self._finished[indices] = ended[indices]
        finals = self._finals if self.autoreset == "same_step" else None
        all_rows = self._infos_of(ended.nonzero()[0] if finals is not None else None, finals)
        infos = DictInfos([all_rows[index] for index in indices])
        taken = rows.taken(indices)
        if out is not None:
            out.fill(taken)
            out.fill_finals(infos)
        target = out or taken
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, indices
        )

    def _step_batch_of(
        self, actions: Any, indices: list[int], rows: StepBuffers, skip: NDArray[np.bool_]
    ) -> None:
        def spread(chosen: NDArray[Any]) -> NDArray[Any]:
            # Skipped envs need a valid action too.
            all_rows = np.repeat(chosen[:1], self.num_envs, axis=0)
            all_rows[indices] = chosen
            return all_rows

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
            # In the middle of a long step: some envs have been stepped and others not.
            self._interrupted()
            raise

    @exclusive
    def rollout(
        self,
        policy: Any,
        head: dict[str, Any],
        key: tuple[int, int],
        observations: Any,
        chosen: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
        """Step all envs many times with the actions of a native policy.

        Args:
            policy: program of the policy.
            head: distribution of its outputs; see `NativeRollout`.
            key: key of the random streams, and index of the first env.
            observations: rows of all envs, of one time more than steps; the first are acted on.
            chosen: policy outputs: steps by envs by width.
            rewards: steps by envs, as the others.
            terminated: True where an episode terminated.
            truncated: True where an episode was truncated.

        Returns:
            Steps and envs of truncated episodes, and their final observations.
        """
        if self.autoreset != "same_step":
            raise ValueError(f"a rollout needs autoreset='same_step', got {self.autoreset!r}")
        self._check_ready(None)
        batch: Any = self.batch  # of the core: other batches have no rollouts
        try:
            steps, envs = batch.rollout(
                policy, head, key, observations, chosen, rewards, terminated, truncated
            )
        except KeyboardInterrupt:
            self._interrupted()
            raise
        finals = self._observations.allocate(len(steps))
        batch.write_cuts(finals)
        self._last = map_arrays(lambda array: array[-self.num_envs :], observations)
        return steps, envs, finals

    @exclusive
    def clone(self, source: int, target: int) -> None:
        """Copy env `source` to `target`, for tree search."""
        self._check_open()
        self.batch.clone_env(source, target)
        self._finished[target] = self._finished[source]

    def get_attr(self, name: str) -> list[Any]:
        """Return an attribute of the batch: one item per env, or the same for all."""
        self._check_open()
        return self._per_env(getattr(self.batch, name))

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of the batch."""
        values = self._per_env_values(value, per_env)
        setattr(self.batch, name, values if per_env else value)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of the batch and return one item per env, or the same for all."""
        self._check_open()
        return self._per_env(getattr(self.batch, name)(*args, **kwargs))

    @exclusive
    def close(self) -> None:
        """Close every env; a second call does nothing."""
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
        """Start the next episodes of envs that ended one in the step before."""
        self.batch.reset(np.flatnonzero(finished), None, target.observations, None)
        target.rewards[finished] = 0.0
        target.terminated[finished] = False
        target.truncated[finished] = False

    def _infos_of(self, ended: NDArray[np.int64] | None, finals: Any) -> Infos:
        columns = {
            key: Column(self._all_indices, values) for key, values in self.batch.infos().items()
        }
        if ended is not None and ended.size:
            # Copy the ended rows only: the next step overwrites the buffer.
            last = map_arrays(lambda array: array[ended], finals)
            rows = self._observations.lazy_rows(last, ended.size)
            final_infos = {key: values[ended] for key, values in self.batch.final_infos().items()}
            columns[FINAL_OBSERVATION] = Column(ended, rows)
            columns[FINAL_INFO] = Column(ended, RowDicts(ended.size, final_infos))
            for key, values in carried_info(final_infos, columns).items():
                columns[key] = Column(ended, values)
        return ColumnInfos(self.num_envs, columns)

    def _per_env(self, value: Any) -> list[Any]:
        is_list = isinstance(value, (list, tuple, np.ndarray)) and len(value) == self.num_envs
        return list(value) if is_list else [value] * self.num_envs

    def _env_states(self) -> Any:
        return {"batch": self.batch.state_dict(), "finished": self._finished.copy()}

    def _load_env_states(self, states: Any) -> None:
        if not isinstance(states, Mapping) or states.keys() != {"batch", "finished"}:
            raise StateError("expected the state of a native batch, got that of single envs")
        self.batch.load_state_dict(states["batch"])
        self._finished = states["finished"].copy()
