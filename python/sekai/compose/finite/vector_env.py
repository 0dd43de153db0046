"""Workers that take seeds until there are none left."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sekai.compose.finite.guard import CollectorGuard
from sekai.compose.finite.listeners import Listeners
from sekai.compose.logs.writer import LogWriter
from sekai.compose.nan_observation import check_nan_observation
from sekai.compose.seeds import ExhaustedError
from sekai.core.closing import Closing
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import ClosedError
from sekai.spaces import Space
from sekai.vector.batching import Batcher
from sekai.vector.infos import DictInfos
from sekai.vector.seeding import Seeds, per_env_options, per_env_seeds
from sekai.vector.vec_env import Ids, Options, VecEnv, checked_ids

__all__ = ["FiniteVectorEnv"]

Id: TypeAlias = "int | Ids | None"
"""One worker, some of them, or None for all."""


class FiniteVectorEnv(Closing):
    """Steps workers that share seeds of which each is used once, until none is left.

    A worker whose reset finds no seed is dead, and is not asked again; the result of a call has
    rows for dead workers all the same, filled with what was seen first. When nobody is alive,
    `reset` raises `StopIteration`. Finished episodes are not begun anew by themselves: the caller
    resets by id.

        with env.collector_guard():
            observations = env.reset().observations
            while True:
                result = env.step(policy(observations))
                observations = result.observations
                finished = np.flatnonzero(result.dones)
                if finished.size:
                    observations[finished] = env.reset(finished).observations
    """

    def __init__(
        self,
        vec: VecEnv,
        logger: LogWriter | list[LogWriter] | None = None,
        *,
        rebuild: Callable[[], VecEnv] | None = None,
    ) -> None:
        """Take over a vector env.

        Args:
            vec: the workers; its `autoreset` must be "disabled".
            logger: a writer, or several, that hear of all episodes.
            rebuild: builds such workers again, when a collector_guard() is entered once more;
                None if one collection is all.
        """
        if vec.autoreset != "disabled":
            raise ValueError(f"vec.autoreset must be 'disabled', was {vec.autoreset!r}")
        try:
            self.listeners = Listeners(logger)
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
        """Begin the episode of a new seed in every worker, or in those of `id` alone.

        Args:
            id: which workers; the result has a row for each of them, in their order.
            ids: the same by the name that it has in other vector envs.
            seed: of the workers' random streams; see `VecEnv.reset`.
            options: what the workers' own `reset` is given.

        Raises:
            StopIteration: every worker has found that the seeds are used up.
        """
        self._check_usable()
        if not self._is_guarded:
            warnings.warn(
                "reset() outside of collector_guard(): nobody tells the loggers, or ends the "
                "workers, when the seeds are used up; use `with env.collector_guard():`",
                RuntimeWarning,
                stacklevel=2,
            )
        places = self._places(id, ids)
        seeds = per_env_seeds(seed, places)
        asked = per_env_options(options, len(places))
        rows = [row for row, place in enumerate(places) if place in self._alive]
        told = self._vec.reset(
            seed=[seeds[row] for row in rows],
            options=[asked[row] for row in rows],
            ids=[places[row] for row in rows],
        )
        return self._began(places, rows, told)

    def step(self, actions: Any, id: Id = None, *, ids: Ids | None = None) -> VecStepResult[Any]:
        """Let the living among all workers, or among those of `id`, act once.

        Args:
            actions: one for each of these workers, the dead ones too.
            id: which workers; the result has a row for each of them, in their order.
            ids: the same by the name that it has in other vector envs.
        """
        self._check_usable()
        places = self._places(id, ids)
        rows = [row for row, place in enumerate(places) if place in self._alive]
        if len(rows) == len(places):
            everyone = rows == places and len(rows) == len(self)
            told = self._vec.step(actions, ids=None if everyone else places)
        else:
            given = self._actions.rows(self._actions.actions(actions, len(places)))
            living = [places[row] for row in rows]
            told = self._vec.step([given[row] for row in rows], ids=living)
        self._hear_step(places, rows, told)
        return told if len(rows) == len(places) else self._with_dead(len(places), rows, told)

    def collector_guard(self) -> CollectorGuard:
        """Block in which episodes are collected; leaving it closes the workers.

        After an orderly end it can be entered again while there are seeds: workers are built
        anew, seeds and random streams go on, episodes that were under way are given up.
        """
        return CollectorGuard(self)

    def close(self) -> None:
        """Close every worker for good. Closing twice is no error."""
        self._close_workers()
        self._resume_points = None

    @property
    def alive(self) -> frozenset[int]:
        """The workers that have not yet found the seeds used up."""
        return frozenset(self._alive)

    @property
    def closed(self) -> bool:
        """Whether the workers have been closed."""
        return self._vec.closed

    @property
    def num_envs(self) -> int:
        """How many workers there are, dead or alive."""
        return self._vec.num_envs

    @property
    def observation_space(self) -> Space[Any]:
        """The space of one worker's observations."""
        return self._vec.observation_space

    @property
    def action_space(self) -> Space[Any]:
        """The space of one worker's actions."""
        return self._vec.action_space

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each worker's env."""
        return self._vec.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of each worker's env; see `VecEnv.set_attr`."""
        self._vec.set_attr(name, value, per_env=per_env)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each worker's env and give back what they return."""
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
            # A vector in the middle of a call refuses, and is closed by the next attempt.
            if self._vec.closed:
                self._is_guarded = False
                self._finalizer.detach()

    def _end_collection(self) -> None:
        """Remember where the workers stand, in case there is another collection."""
        if self._rebuild is None or self._is_exhausted or self._vec.closed:
            return
        known = all(self._vec.call("has_attr", "resume_point"))
        points = self._vec.get_attr("resume_point") if known else [None] * len(self)
        self._resume_points = points

    def _open_again(self) -> None:
        """Build the workers of another collection."""
        points, rebuild = self._resume_points, self._rebuild
        assert points is not None
        assert rebuild is not None
        refusals = [point.refusal for point in points if point is not None and point.refusal]
        if refusals:
            raise ClosedError(
                f"the {type(self).__name__} is closed and cannot be opened again: {refusals[0]}"
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
            raise ValueError("the env is guarded already: leave that collector_guard() first")
        self._is_guarded = True

    def _began(
        self, places: list[int], rows: list[int], told: VecResetResult[Any]
    ) -> VecResetResult[Any]:
        """Sort the living from the dead after a reset of the rows that were alive before it."""
        seen = self._observations.rows(told.observations)
        shown: list[Any] = [None] * len(places)
        infos: list[dict[str, Any]] = [{"exhausted": True} for _ in places]
        dead = set(range(len(places))) - set(rows)
        for row, observation, info in zip(rows, seen, told.infos, strict=True):
            shown[row], infos[row] = observation, info
            if _is_exhausted(observation, info):
                self._alive.discard(places[row])
                dead.add(row)
                continue
            if self._first_observation is None:
                self._first_observation = self._observations.copied(observation)
            self.listeners.reset(places[row], observation, info)
        if not self._alive:
            self._is_exhausted = True
            raise StopIteration("all seeds are used up")
        if not dead:
            return told
        for row in dead:
            # Until somebody has seen something, what an exhausted env shows has at least its form.
            if self._first_observation is not None:
                shown[row] = self._first_observation
        return VecResetResult(self._observations.stack(shown), DictInfos(infos))

    def _hear_step(self, places: list[int], rows: list[int], told: VecStepResult[Any]) -> None:
        if self._first_info is None and rows:
            self._first_reward, self._first_info = float(told.rewards[0]), dict(told.infos[0])
        if not self.listeners.writers:
            return
        seen, dones = self._observations.rows(told.observations), told.dones.tolist()
        rewards = told.rewards.tolist()
        for at, row in enumerate(rows):
            self.listeners.step(places[row], seen[at], rewards[at], dones[at], told.infos[at])

    def _with_dead(
        self, count: int, rows: list[int], told: VecStepResult[Any]
    ) -> VecStepResult[Any]:
        """A step with rows for the dead, who have something to show and do nothing."""
        shown: list[Any] = [self._first_observation] * count
        infos = [dict(self._first_info or {}) for _ in range(count)]
        rewards = np.full(count, self._first_reward)
        terminated, truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        rewards[rows], terminated[rows] = told.rewards, told.terminated
        truncated[rows] = told.truncated
        seen = self._observations.rows(told.observations)
        for row, observation, info in zip(rows, seen, told.infos, strict=True):
            shown[row], infos[row] = observation, info
        observations = self._observations.stack(shown)
        return VecStepResult(observations, rewards, terminated, truncated, DictInfos(infos))

    def _places(self, id: Id, ids: Ids | None) -> list[int]:
        if id is not None and ids is not None:
            raise ValueError("id and ids are two names of one thing: give one of them")
        chosen: Ids | NDArray[Any] | Sequence[int] | None = ids
        if id is not None:
            chosen = [int(id)] if isinstance(id, (int, np.integer)) else id
        return checked_ids(chosen, len(self))

    def _check_usable(self) -> None:
        if self._is_exhausted:
            raise ExhaustedError(
                "all seeds are used up, which StopIteration has told: make a new vector env"
            )
        if self._vec.closed:
            again = "" if self._resume_points is None else "enter collector_guard() again, or "
            raise ClosedError(
                f"the {type(self).__name__} is closed, as it is after its collector_guard(): "
                f"{again}make a new one"
            )


def _is_exhausted(observation: Any, info: dict[str, Any]) -> bool:
    """Whether a reset has found no seed: as the env says, or as its observation looks."""
    told = info.get("exhausted")
    return check_nan_observation(observation) if told is None else bool(told)
