"""Envs that run in worker processes: the way for envs that need more than one core."""

from __future__ import annotations

import contextlib
import os
import pickle
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

import numpy as np

from sekai.backend import Backend
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import SekaiError, StateError, WorkerError
from sekai.vector.autoreset import Autoreset
from sekai.vector.base import BaseVecEnv, checked_factories
from sekai.vector.batching import map_arrays
from sekai.vector.buffers import StepBuffers
from sekai.vector.crew import MAIN_GUARD, Answer, Crew, Lost, chosen_context
from sekai.vector.faults import OnError
from sekai.vector.group import EnvFactory, check_spaces
from sekai.vector.infos import Infos
from sekai.vector.seeding import Seeds
from sekai.vector.shared_memory import SLOTS, SharedBlock, VectorMemory
from sekai.vector.turn import in_turn
from sekai.vector.vec_env import Ids, Options
from sekai.vector.wire import REQUEST, STEP, Portable, dumps
from sekai.vector.worker import Assignment

__all__ = ["ProcVecEnv", "worker_count"]

START_SECONDS = 120.0
"""How long a worker may take to begin and to build its envs."""


class ProcVecEnv(BaseVecEnv):
    """Shares its envs out to worker processes that step them at the same time.

    Observations, actions, rewards and flags go through shared memory; infos, which are seldom
    large, through a pipe, and are unpickled when they are read. Workers sleep between steps.
    """

    _shares_batches: ClassVar[bool] = True

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
            start_method: "fork", "forkserver" or "spawn"; None takes forkserver where there is one,
                whatever `multiprocessing.set_start_method` was given.
            step_timeout: seconds a worker may take for anything it is asked; None waits for ever.
            autoreset: when the next episode begins; see `Autoreset`.
            on_error: what becomes of an env that raises, hangs or dies; see `OnError`. Envs that
                share a worker die together.
            backend: who makes the arrays of results.
            copy: False lets a result share its arrays with the second result after it.
        """
        factories = checked_factories(env_fns)
        super().__init__(len(factories), autoreset, on_error, backend, copy)
        self.num_workers = worker_count(num_workers, len(factories))
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

    @in_turn
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
        rows = self._steps[self._slot].observations
        observations = map_arrays(lambda array: array[places], rows)
        infos = _PickledInfos(places.tolist(), self._payloads(answers))
        return self._reset_batch(orders, observations, infos)

    @in_turn
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids`, act once, as many at a time as there are workers."""
        places = self._chosen(ids)
        batch = self._checked_actions(actions, out, places)
        if places is not None:
            return self._step_some(batch, places, out)
        map_arrays(np.copyto, self._memory.actions, batch)
        self._slot = 1 - self._slot
        message = STEP + bytes((self._slot,))
        answers = self._asked(dict.fromkeys(range(self.num_workers), message), is_step=True)
        result = self._steps[self._slot]
        if self.autoreset == "next_step":
            np.logical_or(result.terminated, result.truncated, out=self._finished)
        if out is not None:
            out.fill(result)
        target = out or (result.copied() if self.copy else result)
        infos = _PickledInfos(range(self.num_envs), self._payloads(answers))
        target.fill_finals(infos)
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos
        )

    def _step_some(
        self, batch: Any, places: list[int], out: StepBuffers | None
    ) -> VecStepResult[Any]:
        rows = np.array(places, np.int64)
        map_arrays(
            lambda all_rows, new: all_rows.__setitem__(rows, new), self._memory.actions, batch
        )
        before, self._slot = self._steps[self._slot], 1 - self._slot
        # Whoever does not act goes on showing what it showed.
        self._steps[self._slot].fill(before)
        answers = self._asked(self._step_messages(places), is_step=True)
        result = self._steps[self._slot].taken(places)
        if self.autoreset == "next_step":
            self._finished[rows] = result.terminated | result.truncated
        infos = _PickledInfos(places, self._payloads(answers))
        if out is not None:
            out.fill(result)
            out.fill_finals(infos)
        target = out or result
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, places
        )

    def _step_messages(self, places: Sequence[int]) -> dict[int, bytes]:
        """What each worker is told that has envs at `places`."""
        messages = {}
        for mine in self._assignments:
            local = [place - mine.first for place in places if place in mine.envs]
            if len(local) == len(mine.envs):
                messages[mine.number] = STEP + bytes((self._slot,))
            elif local:
                messages[mine.number] = REQUEST + dumps(("step_some", (local, self._slot)))
        return messages

    @in_turn
    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return self._ask_all("get_attr", lambda mine: (name,))

    @in_turn
    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, in the outermost layer that has it."""
        values = self._per_env_values(value, per_env)
        self._ask_all("set_attr", lambda mine: (name, [values[i] for i in mine.envs]))

    @in_turn
    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        return self._ask_all("call", lambda mine: (name, args, kwargs))

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process_id for worker in self._crew.workers]

    @in_turn
    def close(self) -> None:
        """Close every env and end the workers. Closing twice is no error."""
        if not self._closed:
            self._shut_down(polite=True)

    def _shared_out(self, factories: Sequence[EnvFactory]) -> list[Assignment]:
        bounds = np.linspace(0, len(factories), self.num_workers + 1).astype(int).tolist()
        return [
            Assignment(
                number=number,
                workers=self.num_workers,
                first=first,
                num_envs=self.num_envs,
                factories=Portable(list(factories[first:last])),
                autoreset=self.autoreset,
                on_error=self.on_error,
                shares_batches=self._shares_batches,
                seeds=[None] * (last - first),
                finished=[False] * (last - first),
            )
            for number, (first, last) in enumerate(pairwise(bounds))
        ]

    def _meet_workers(self) -> None:
        """Hear which spaces the envs have, and share the memory that they need."""
        greetings = self._crew.greetings(range(self.num_workers), START_SECONDS)
        spaces = [self._greeting(worker, greetings[worker]) for worker in greetings]
        for mine, found in zip(self._assignments, spaces, strict=True):
            check_spaces(0, spaces[0], mine.first, found)
        self._set_spaces(spaces[0])
        self._memory = VectorMemory(
            self._observations,
            self._actions,
            self.num_envs,
            self.num_workers,
            self._shares_batches,
        )
        self._block = SharedBlock.create(self._memory.size)
        self._memory.attach(self._block)
        if self._shares_batches:
            self._steps = [self._memory.step_of(slot) for slot in range(SLOTS)]
        for worker in range(self.num_workers):
            self._crew.share(worker, self._block, self._memory)

    def _greeting(self, worker: int, answer: Answer | Lost) -> dict[str, Any]:
        if isinstance(answer, Lost):
            raise WorkerError(
                f"worker {worker} built no envs: {answer.reason}. If the program is a script: "
                f"{MAIN_GUARD}",
                env_index=self._assignments[worker].first,
                exit_code=answer.exit_code,
            )
        if answer.error is not None:
            raise answer.error
        spaces: dict[str, Any] = answer.value
        return spaces

    def _asked(self, messages: Mapping[int, bytes], is_step: bool = False) -> dict[int, Answer]:
        """What the workers answer; those that are lost are replaced, or their error is raised."""
        try:
            heard = self._crew.exchange(messages, self.step_timeout)
        except BaseException:
            self._interrupted()
            raise
        answers = {worker: one for worker, one in heard.items() if isinstance(one, Answer)}
        for worker, lost in heard.items():
            if isinstance(lost, Lost):
                error = self._error_of(worker, lost, is_step)
                answers[worker] = self._replaced(worker, error, messages[worker])
        for answer in answers.values():
            if answer.error is not None:
                self._give_up(answer.error)
        return answers

    def _ask_all(self, name: str, arguments: Callable[[Assignment], tuple[Any, ...]]) -> list[Any]:
        self._check_open()
        messages = {
            mine.number: REQUEST + dumps((name, arguments(mine))) for mine in self._assignments
        }
        answers = self._asked(messages)
        return [value for worker in messages for value in answers[worker].value or ()]

    def _replaced(self, worker: int, error: WorkerError, message: bytes) -> Answer:
        """Begin a lost worker anew and ask it again; its envs know that they have been lost."""
        if self.on_error == "raise":
            self._give_up(error)
        mine = self._assignments[worker]
        seeds = [self._seeds[index] for index in mine.envs]
        finished = self._finished[mine.first : mine.envs.stop].tolist()
        again = replace(mine, seeds=seeds, finished=finished, lost=str(error))
        self._crew.replace(worker, again)
        answer = self._crew.greetings([worker], START_SECONDS)[worker]
        if isinstance(answer, Answer) and answer.error is None:
            assert self._block is not None, "there since the workers were met"
            self._crew.share(worker, self._block, self._memory)
            answer = self._crew.exchange({worker: message}, self.step_timeout)[worker]
        if isinstance(answer, Lost):
            self._give_up(self._error_of(worker, answer, is_step=False))
        return answer

    def _error_of(self, worker: int, lost: Lost, is_step: bool) -> WorkerError:
        mine = self._assignments[worker]
        place = int(self._memory.current[worker])
        index = mine.first + place
        return WorkerError(
            f"env {index} (seed {self._seeds[index]}) was lost: {lost.reason}",
            env_index=index,
            seed=self._seeds[index],
            last_action=self._action_of(index) if is_step else None,
            exit_code=lost.exit_code,
        )

    def _action_of(self, index: int) -> Any:
        """The action that an env was given last."""
        return self._actions.rows(self._memory.actions_of(index, index + 1))[0]

    def _give_up(self, error: BaseException) -> NoReturn:
        """Raise an error; if an env has failed, close the vector first."""
        if isinstance(error, WorkerError):
            with contextlib.suppress(SekaiError):
                self._shut_down(polite=True)
        raise error

    def _shut_down(self, polite: bool) -> None:
        self._closed = self._is_blocked = True
        self._finalizer.detach()
        errors = self._crew.close(polite)
        if self._block is not None:
            self._block.release_file()
        if errors:
            raise errors[0]

    def _payloads(self, answers: Mapping[int, Answer]) -> list[tuple[int, bytes]]:
        return [
            (self._assignments[worker].first, answer.pickled)
            for worker, answer in answers.items()
            if answer.pickled is not None
        ]

    def _env_states(self) -> list[dict[str, Any]]:
        return self._ask_all("state", lambda mine: ())

    def _load_env_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        if len(states) != self.num_envs:
            raise StateError(f"states of {self.num_envs} envs were wanted, found {len(states)}")
        before = self._env_states()
        try:
            self._ask_all("load_state", lambda mine: ([states[i] for i in mine.envs],))
        except StateError:
            self._ask_all("load_state", lambda mine: ([before[i] for i in mine.envs],))
            raise
        self._seeds = [state["seed"] for state in states]
        self._finished[:] = [state["finished"] for state in states]

    def _last_batch(self) -> Any:
        return map_arrays(np.copy, self._steps[self._slot].observations)

    def _set_last_batch(self, batch: Any) -> None:
        if batch is not None:
            map_arrays(np.copyto, self._steps[self._slot].observations, batch)

    def _remember(self, places: Sequence[int], observations: Any) -> None:
        """Nothing to do: the last observations are in shared memory."""


class _PickledInfos(Infos):
    """Infos as they came from the workers; unpickled when they are read."""

    __slots__ = ("_payloads", "_places")

    def __init__(self, places: Sequence[int], payloads: list[tuple[int, bytes]]) -> None:
        super().__init__()
        self._places = places
        self._payloads = payloads

    def __len__(self) -> int:
        return len(self._places)

    def _build(self) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for first, payload in self._payloads:
            found.update((first + place, info) for place, info in pickle.loads(payload).items())
        self._payloads = []
        return [found.get(place, {}) for place in self._places]


def worker_count(num_workers: int | None, num_envs: int) -> int:
    """How many processes `num_envs` envs are shared out to; None asks for one per core."""
    if num_workers is None:
        affinity = getattr(os, "sched_getaffinity", None)
        num_workers = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    if num_workers < 1:
        raise ValueError(f"num_workers must be at least 1, was {num_workers}")
    return min(num_workers, num_envs)
