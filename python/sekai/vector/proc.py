"""Envs that run in worker processes: the way for envs that need more than one core."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sekai.backend import Backend
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import SekaiError, StateError, WorkerError
from sekai.vector.autoreset import Autoreset
from sekai.vector.batching import map_arrays
from sekai.vector.composed import ComposedVecEnv, checked_factories
from sekai.vector.crew import MAIN_GUARD, Answer, Crew, Lost, chosen_context
from sekai.vector.faults import OnError
from sekai.vector.group import EnvFactory, check_spaces
from sekai.vector.infos import Infos
from sekai.vector.seeding import Seeds
from sekai.vector.shared_memory import SharedBlock, VectorMemory
from sekai.vector.vec_env import Ids, Options, StepBuffers
from sekai.vector.wire import REQUEST, STEP, Portable, dumps
from sekai.vector.worker import Assignment

__all__ = ["ProcVecEnv"]

START_SECONDS = 120.0
"""How long a worker may take to begin and to build its envs."""


class ProcVecEnv(ComposedVecEnv):
    """Shares its envs out to worker processes that step them at the same time.

    Observations, actions, rewards and flags go through shared memory; infos, which are seldom
    large, through a pipe, and are unpickled when they are read. Workers sleep between steps.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        *,
        num_workers: int | None = None,
        start_method: str | None = None,
        step_timeout: float | None = 300.0,
        autoreset: Autoreset = "same_step",
        on_error: OnError = "raise",
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        """Begin the workers, which build the envs.

        Args:
            env_fns: functions that build one env each; closures may cross too, by cloudpickle.
            num_workers: processes; None begins one for each core that this process may use.
            start_method: "fork", "forkserver" or "spawn"; None takes what the program has set by
                `multiprocessing.set_start_method`, else forkserver where there is one.
            step_timeout: seconds a worker may take for anything it is asked; None waits for ever.
            autoreset: when the next episode begins; see `Autoreset`.
            on_error: what becomes of an env that raises, hangs or dies; see `OnError`. Envs that
                share a worker die together.
            backend: who makes the arrays of results.
            copy: False lets a result share its arrays with the second result after it.
        """
        factories = checked_factories(env_fns)
        super().__init__(len(factories), autoreset, on_error, backend, copy)
        self.num_workers = _worker_count(num_workers, len(factories))
        self.step_timeout = step_timeout
        self._seeds: list[int | None] = [None] * self.num_envs
        self._finished = np.zeros(self.num_envs, np.bool_)
        self._slot = 0
        self._block: SharedBlock | None = None
        self._assignments = self._shared_out(factories)
        self._crew = Crew(chosen_context(start_method), self._assignments)
        self._finalizer = weakref.finalize(self, self._crew.close)
        try:
            self._meet_workers()
        except BaseException:
            self._shut_down(polite=False)
            raise

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        orders = self._orders(seed, options, ids)
        for place, one_seed, _ in orders:
            self._seeds[place] = self._seeds[place] if one_seed is None else one_seed
        places = np.array([place for place, _, _ in orders], np.int64)
        messages = {}
        for mine in self._assignments:
            local = [(p - mine.first, s, o) for p, s, o in orders if p in mine.envs]
            if local:
                messages[mine.number] = REQUEST + dumps(("reset", (local, self._slot)))
        answers = self._asked(messages)
        self._finished[places] = False
        rows = self._memory.step_of(self._slot).observations
        observations = map_arrays(lambda array: array[places], rows)
        infos = _PickledInfos(places.tolist(), self._payloads(answers))
        return self._reset_batch(orders, observations, infos)

    def step(self, actions: Any, *, out: StepBuffers | None = None) -> VecStepResult[Any]:
        """Let every env act once, as many at a time as there are workers."""
        batch = self._checked_actions(actions)
        map_arrays(np.copyto, self._memory.actions, batch)
        self._slot = 1 - self._slot
        message = STEP + bytes((self._slot,))
        answers = self._asked(dict.fromkeys(range(self.num_workers), message), batch)
        result = self._memory.step_of(self._slot)
        if self.autoreset == "next_step":
            np.logical_or(result.terminated, result.truncated, out=self._finished)
        if out is not None:
            target = out
            map_arrays(np.copyto, target.observations, result.observations)
            np.copyto(target.rewards, result.rewards)
            np.copyto(target.terminated, result.terminated)
            np.copyto(target.truncated, result.truncated)
        elif self.copy:
            target = StepBuffers(
                map_arrays(np.copy, result.observations),
                result.rewards.copy(),
                result.terminated.copy(),
                result.truncated.copy(),
            )
        else:
            target = result
        infos = _PickledInfos(range(self.num_envs), self._payloads(answers))
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos
        )
