"""Finite vector env: workers that use shared seeds until none is left."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.compose.interpreter import check_nan_observation
from sekai.compose.logs.writer import LogWriter
from sekai.compose.seeds import ExhaustedError
from sekai.core.base import Closeable
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import ClosedError
from sekai.spaces import Space
from sekai.vector.batching import Batcher
from sekai.vector.infos import DictInfos
from sekai.vector.vec_env import (
    Ids,
    Options,
    Seeds,
    VecEnv,
    checked_ids,
    per_env_options,
    per_env_seeds,
)

__all__ = ["FiniteVectorEnv"]

Id: TypeAlias = "int | Ids | None"
"""One worker, some of them, or None for all."""


class FiniteVectorEnv(Closeable):
    """Vector env whose workers share seeds, each used once, until none is left.

    A worker whose reset finds no seed is dead and is not called again; results still have rows for
    dead workers, filled with the first observation. When no worker is alive, `reset` raises
    `StopIteration`. There is no autoreset: the caller resets finished workers by id.

        with env.collector_guard():
            observations = env.reset().observations
            while True:
                result = env.step(policy(observations))
                observations = result.observations
                finished = np.flatnonzero(result.dones)
                if finished.size:
                    observations[finished] = env.reset(finished).observations

    Args:
        vec: vector env of the workers; its `autoreset` must be "disabled".
        logger: writer, or list of writers, of all episodes.
        rebuild: builds the workers again when a collector_guard() is entered once more; None for
            a single collection.
    """

    def __init__(
        self,
        vec: VecEnv,
        logger: LogWriter | list[LogWriter] | None = None,
        *,
        rebuild: Callable[[], VecEnv] | None = None,
    ) -> None:
        if vec.autoreset != "disabled":
            raise ValueError(f"vec.autoreset must be 'disabled', got {vec.autoreset!r}")
        try:
            self.writers = LogWriterList(logger)
        except BaseException:
            vec.close()
            raise
        self._vec = vec
        self._rebuild = rebuild
        self._resume_points: list[Any] | None = None
        self._alive = set(range(vec.num_envs))
        self._is_exhausted = self._is_guarded = False
        self._observations = Batcher(vec.observation_space)
        self._actions = Batcher(vec.action_space)
        self._first_observation: Any = None
        self._first_reward = 0.0
        self._first_info: dict[str, Any] | None = None
        self._finalizer = weakref.finalize(self, vec.close)

    def reset(
        self,
        id: Id = None,
        *,
        ids: Ids | None = None,
        seed: Seeds = None,
        options: Options = None,
    ) -> VecResetResult[Any]:
        """Start the episode of a new seed in every worker, or in those of `id` alone.

        Args:
            id: workers; the result has a row for each of them, in their order.
            ids: alias of `id`, as in other vector envs.
            seed: seed of the workers' random streams; see `VecEnv.reset`.
            options: options of the workers' `reset`.

        Raises:
            StopIteration: every worker found the seeds used up.
        """
        self._check_usable()
        if not self._is_guarded:
            warnings.warn(
                "reset() outside of collector_guard(): loggers are not notified and workers are "
                "not closed when the seeds are used up; use `with env.collector_guard():`",
                RuntimeWarning,
                stacklevel=2,
            )
        workers = self._worker_ids(id, ids)
        seeds = per_env_seeds(seed, workers)
        env_options = per_env_options(options, len(workers))
        rows = [row for row, worker in enumerate(workers) if worker in self._alive]
        result = self._vec.reset(
            seed=[seeds[row] for row in rows],
            options=[env_options[row] for row in rows],
            ids=[workers[row] for row in rows],
        )
        return self._after_reset(workers, rows, result)

    def step(self, actions: Any, id: Id = None, *, ids: Ids | None = None) -> VecStepResult[Any]:
        """Step the workers that are alive, of all or of those of `id`.

        Args:
            actions: one for each of these workers, dead ones included.
            id: workers; the result has a row for each of them, in their order.
            ids: alias of `id`, as in other vector envs.
        """
        self._check_usable()
        workers = self._worker_ids(id, ids)
        rows = [row for row, worker in enumerate(workers) if worker in self._alive]
        if len(rows) == len(workers):
            is_all = rows == workers and len(rows) == len(self)
            result = self._vec.step(actions, ids=None if is_all else workers)
        else:
            per_worker = self._actions.rows(self._actions.actions(actions, len(workers)))
            alive = [workers[row] for row in rows]
            result = self._vec.step([per_worker[row] for row in rows], ids=alive)
        self._log_step(workers, rows, result)
        return result if len(rows) == len(workers) else self._with_dead(len(workers), rows, result)

    def collector_guard(self) -> CollectorGuard:
        """Context manager of a collection of episodes; leaving it closes the workers.

        After a normal end it can be entered again while there are seeds: workers are rebuilt,
        seeds and random streams continue, unfinished episodes are dropped.
        """
        return CollectorGuard(self)

    def close(self) -> None:
        """Close every worker. Closing twice is no error."""
        self._close_workers()
        self._resume_points = None

    @property
    def alive(self) -> frozenset[int]:
        """Workers that have not yet found the seeds used up."""
        return frozenset(self._alive)

    @property
    def closed(self) -> bool:
        """True if the workers have been closed."""
        return self._vec.closed

    @property
    def num_envs(self) -> int:
        """Number of workers, dead or alive."""
        return self._vec.num_envs

    @property
    def observation_space(self) -> Space[Any]:
        """Observation space of one worker."""
        return self._vec.observation_space

    @property
    def action_space(self) -> Space[Any]:
        """Action space of one worker."""
        return self._vec.action_space

    def get_attr(self, name: str) -> list[Any]:
        """Attribute of each worker's env."""
        return self._vec.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of each worker's env; see `VecEnv.set_attr`."""
        self._vec.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each worker's env and return the results."""
        return self._vec.call(name, *args, **kwargs)

    def __len__(self) -> int:
        return self._vec.num_envs

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} workers, {len(self._alive)} alive>"

    def _close_workers(self) -> None:
        try:
            self._vec.close()
        finally:
            # A vector env in the middle of a call cannot be closed yet.
            if self._vec.closed:
                self._is_guarded = False
                self._finalizer.detach()

    def _end_collection(self) -> None:
        """Save the resume points of the workers for another collection."""
        if self._rebuild is None or self._is_exhausted or self._vec.closed:
            return
        known = all(self._vec.call("has_attr", "resume_point"))
        points = self._vec.get_attr("resume_point") if known else [None] * len(self)
        self._resume_points = points

    def _open_again(self) -> None:
        """Rebuild the workers for another collection."""
        points, rebuild = self._resume_points, self._rebuild
        assert points is not None
        assert rebuild is not None
        refusals = [point.refusal for point in points if point is not None and point.refusal]
        if refusals:
            raise ClosedError(
                f"the {type(self).__name__} is closed and cannot be reopened: {refusals[0]}"
            )
        vec = rebuild()
        try:
            if points[0] is not None:
                vec.set_attr("resume_point", points, per_env=True)
        except BaseException:
            vec.close()
            raise
        self._vec, self._resume_points = vec, None
        self._finalizer = weakref.finalize(self, vec.close)

    def _begin_collection(self) -> None:
        if self._resume_points is not None:
            self._open_again()
        self._check_usable()
        if self._is_guarded:
            raise ValueError("the env is already in a collector_guard(); leave that one first")
        self._is_guarded = True

    def _after_reset(
        self, workers: list[int], rows: list[int], result: VecResetResult[Any]
    ) -> VecResetResult[Any]:
        """Update the alive workers after a reset of the rows that were alive before it."""
        reset_rows = self._observations.rows(result.observations)
        observations: list[Any] = [None] * len(workers)
        infos: list[dict[str, Any]] = [{"exhausted": True} for _ in workers]
        dead = set(range(len(workers))) - set(rows)
        for row, observation, info in zip(rows, reset_rows, result.infos, strict=True):
            observations[row], infos[row] = observation, info
            if _is_exhausted(observation, info):
                self._alive.discard(workers[row])
                dead.add(row)
                continue
            if self._first_observation is None:
                self._first_observation = self._observations.copied(observation)
            self.writers.reset(workers[row], observation, info)
        if not self._alive:
            self._is_exhausted = True
            raise StopIteration("all seeds are used up")
        if not dead:
            return result
        for row in dead:
            # Without any observation yet, the placeholder of the exhausted env is kept.
            if self._first_observation is not None:
                observations[row] = self._first_observation
        return VecResetResult(self._observations.stack(observations), DictInfos(infos))

    def _log_step(self, workers: list[int], rows: list[int], result: VecStepResult[Any]) -> None:
        if self._first_info is None and rows:
            self._first_reward, self._first_info = float(result.rewards[0]), dict(result.infos[0])
        if not self.writers.writers:
            return
        steps = zip(
            self._observations.rows(result.observations),
            result.rewards.tolist(),
            result.dones.tolist(),
            result.infos,
            strict=True,
        )
        for row, (observation, reward, done, info) in zip(rows, steps, strict=True):
            self.writers.step(workers[row], observation, reward, done, info)

    def _with_dead(
        self, count: int, rows: list[int], result: VecStepResult[Any]
    ) -> VecStepResult[Any]:
        """Result of a step with placeholder rows for dead workers."""
        observations: list[Any] = [self._first_observation] * count
        infos = [dict(self._first_info or {}) for _ in range(count)]
        rewards = np.full(count, self._first_reward)
        terminated, truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        rewards[rows], terminated[rows] = result.rewards, result.terminated
        truncated[rows] = result.truncated
        step_rows = self._observations.rows(result.observations)
        for row, observation, info in zip(rows, step_rows, result.infos, strict=True):
            observations[row], infos[row] = observation, info
        stacked = self._observations.stack(observations)
        return VecStepResult(stacked, rewards, terminated, truncated, DictInfos(infos))

    def _worker_ids(self, id: Id, ids: Ids | None) -> list[int]:
        if id is not None and ids is not None:
            raise ValueError("pass either id or ids, got both")
        chosen: Ids | NDArray[Any] | Sequence[int] | None = ids
        if id is not None:
            chosen = [int(id)] if isinstance(id, (int, np.integer)) else id
        return checked_ids(chosen, len(self))

    def _check_usable(self) -> None:
        if self._is_exhausted:
            raise ExhaustedError("all seeds are used up; make a new vector env")
        if self._vec.closed:
            again = "" if self._resume_points is None else "enter collector_guard() again, or "
            raise ClosedError(
                f"the {type(self).__name__} is closed, as it is after its collector_guard(); "
                f"{again}make a new one"
            )


def _is_exhausted(observation: Any, info: dict[str, Any]) -> bool:
    exhausted = info.get("exhausted")
    return check_nan_observation(observation) if exhausted is None else bool(exhausted)


class CollectorGuard:
    """Context manager of a collection: notifies the writers and closes the workers.

    The `StopIteration` of a finite vector env whose seeds are used up ends the block; any other
    exception passes through. After a normal end the guard can be entered again while there are
    seeds.
    """

    def __init__(self, env: FiniteVectorEnv) -> None:
        self._env = env

    def __enter__(self) -> FiniteVectorEnv:
        self._env._begin_collection()
        try:
            self._env.writers.all_ready()
        except BaseException:
            warn_on_error(self._env.close, "closing the workers failed")
            raise
        return self._env

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        env = self._env
        if error is not None and not isinstance(error, StopIteration):
            try:
                env.writers.aborted()
            finally:
                warn_on_error(env.close, "closing the workers failed")
            return False
        try:
            env.writers.all_done()
            env._end_collection()
        finally:
            env._close_workers()
        return True


HOOKS = ("on_env_all_ready", "on_env_reset", "on_env_step", "on_env_all_done")


class LogWriterList:
    """List of log writers that are notified in order.

    Args:
        logger: one writer, a list of writers, or None.
    """

    def __init__(self, logger: LogWriter | list[LogWriter] | None) -> None:
        if logger is None:
            self.writers = []
        else:
            self.writers = list(logger) if isinstance(logger, (list, tuple)) else [logger]
        for writer in self.writers:
            missing = [name for name in HOOKS if not callable(getattr(writer, name, None))]
            if missing:
                raise TypeError(
                    f"logger must be a sekai.compose.LogWriter, a list of them or None; {writer!r} "
                    f"has no {', '.join(missing)}"
                )
        self._takes_info = [_takes_info(writer) for writer in self.writers]

    def all_ready(self) -> None:
        """Notify the start of a collection."""
        for writer in self.writers:
            writer.on_env_all_ready()

    def reset(self, env_id: int, observation: Any, info: Mapping[str, Any]) -> None:
        """Notify the reset of a worker."""
        for writer, takes_info in zip(self.writers, self._takes_info, strict=True):
            if takes_info:
                writer.on_env_reset(env_id, observation, info)
            else:
                writer.on_env_reset(env_id, observation)

    def step(
        self, env_id: int, observation: Any, reward: float, done: bool, info: Mapping[str, Any]
    ) -> None:
        """Notify a step of a worker."""
        for writer in self.writers:
            writer.on_env_step(env_id, observation, reward, done, info)

    def all_done(self) -> None:
        """Notify the end of a collection."""
        for writer in self.writers:
            writer.on_env_all_done()

    def aborted(self) -> None:
        """Flush the writers after an exception, which their own errors must not hide."""
        for writer in self.writers:
            flush = getattr(writer, "flush", None)
            if flush is not None:
                warn_on_error(flush, f"{type(writer).__name__}.flush() failed")


def warn_on_error(action: Any, problem: str) -> None:
    """Call `action` while an exception is raised: its own errors become warnings."""
    try:
        action()
    except Exception as error:
        warnings.warn(f"{problem}: {error!r}", RuntimeWarning, stacklevel=3)


def _takes_info(writer: LogWriter) -> bool:
    try:
        inspect.signature(writer.on_env_reset).bind(0, None, {})
    except TypeError:
        return False
    return True
