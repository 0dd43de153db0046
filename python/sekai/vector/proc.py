"""ProcVecEnv: envs in worker processes, through shared memory or pipes."""

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
from sekai.core.autoreset import Autoreset, has_autoreset
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.error import SekaiError, StateError, WorkerError
from sekai.vector.base import BaseVecEnv, checked_factories, exclusive
from sekai.vector.batching import StepBuffers, map_arrays
from sekai.vector.group import EnvFactory, OnError, check_spaces
from sekai.vector.infos import Infos
from sekai.vector.messages import REQUEST, STEP, CloudPickled, dumps
from sekai.vector.shared_memory import SLOTS, SharedBlock, VectorMemory
from sekai.vector.vec_env import Ids, Options, Seeds
from sekai.vector.worker import Assignment
from sekai.vector.worker_pool import MAIN_GUARD, LostWorker, WorkerPool, WorkerReply, start_context

START_SECONDS = 120.0
"""Seconds that a worker may take to start and create its envs."""


class ProcVecEnv(BaseVecEnv):
    """Vector env that steps its envs in parallel in worker processes.

    Observations, actions, rewards and flags are in shared memory; infos, which are usually small,
    are sent through a pipe and unpickled when read. Workers sleep between steps.

    Args:
        env_fns: functions that create one env each; closures are supported, by cloudpickle.
        num_workers: number of processes; None for one per core that this process may use.
        start_method: "fork", "forkserver" or "spawn"; None takes forkserver where available,
            regardless of `multiprocessing.set_start_method`.
        step_timeout: seconds that a worker may take for a request; None for no limit.
        autoreset: autoreset mode; see `Autoreset`.
        on_error: treatment of an env that raises, hangs or dies; see `OnError`. Envs that share a
            worker die together.
        backend: array backend of results.
        copy: False lets a result share its arrays with the second result after it.
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
        factories = checked_factories(env_fns)
        super().__init__(len(factories), autoreset, on_error, backend, copy)
        self.num_workers = worker_count(num_workers, len(factories))
        self.step_timeout = step_timeout
        self._seeds: list[int | None] = [None] * self.num_envs
        self._finished = np.zeros(self.num_envs, np.bool_)
        self._slot = 0
        self._block: SharedBlock | None = None
        self._assignments = self._assign(factories)
        self._pool = WorkerPool(start_context(start_method), self._assignments)
        self._finalizer = weakref.finalize(self, self._pool.close)
        try:
            self._connect_workers()
        except BaseException:
            self._shut_down(polite=False)
            raise

    @exclusive
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        orders = self._orders(seed, options, ids)
        for index, env_seed, _ in orders:
            self._seeds[index] = self._seeds[index] if env_seed is None else env_seed
        indices = np.array([index for index, _, _ in orders], np.int64)
        messages = {}
        for assignment in self._assignments:
            local = [(p - assignment.first, s, o) for p, s, o in orders if p in assignment.envs]
            if local:
                messages[assignment.number] = REQUEST + dumps(("reset", (local, self._slot)))
        replies_by_worker = self._request(messages)
        self._finished[indices] = False
        rows = self._steps[self._slot].observations
        observations = map_arrays(lambda array: array[indices], rows)
        infos = _PickledInfos(indices.tolist(), self._payloads(replies_by_worker))
        return self._reset_batch(orders, observations, infos)

    @exclusive
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        indices = self._chosen(ids)
        batch = self._checked_actions(actions, out, indices)
        if indices is not None:
            return self._step_some(batch, indices, out)
        map_arrays(np.copyto, self._memory.actions, batch)
        self._slot = 1 - self._slot
        message = STEP + bytes((self._slot,))
        replies_by_worker = self._request(
            dict.fromkeys(range(self.num_workers), message), is_step=True
        )
        result = self._steps[self._slot]
        if self.autoreset == "next_step":
            np.logical_or(result.terminated, result.truncated, out=self._finished)
        if out is not None:
            out.fill(result)
        target = out or (result.copied() if self.copy else result)
        infos = _PickledInfos(range(self.num_envs), self._payloads(replies_by_worker))
        target.fill_finals(infos)
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos
        )

    def _step_some(
        self, batch: Any, indices: list[int], out: StepBuffers | None
    ) -> VecStepResult[Any]:
        rows = np.array(indices, np.int64)
        map_arrays(
            lambda all_rows, new: all_rows.__setitem__(rows, new), self._memory.actions, batch
        )
        before, self._slot = self._steps[self._slot], 1 - self._slot
        # Envs that do not act keep their last result.
        self._steps[self._slot].fill(before)
        replies_by_worker = self._request(self._step_messages(indices), is_step=True)
        result = self._steps[self._slot].taken(indices)
        if self.autoreset == "next_step":
            self._finished[rows] = result.terminated | result.truncated
        infos = _PickledInfos(indices, self._payloads(replies_by_worker))
        if out is not None:
            out.fill(result)
            out.fill_finals(infos)
        target = out or result
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, indices
        )

    def _step_messages(self, indices: Sequence[int]) -> dict[int, bytes]:
        """Return the request of each worker that has envs among `indices`."""
        messages = {}
        for assignment in self._assignments:
            local = [index - assignment.first for index in indices if index in assignment.envs]
            if len(local) == len(assignment.envs):
                messages[assignment.number] = STEP + bytes((self._slot,))
            elif local:
                messages[assignment.number] = REQUEST + dumps(("step_some", (local, self._slot)))
        return messages

    @exclusive
    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        return self._request_all("get_attr", lambda assignment: (name,))

    @exclusive
    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        values = self._per_env_values(value, per_env)
        self._request_all(
            "set_attr", lambda assignment: (name, [values[i] for i in assignment.envs])
        )

    @exclusive
    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        return self._request_all("call", lambda assignment: (name, args, kwargs))

    @property
    def worker_ids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process_id for worker in self._pool.workers]

    @exclusive
    def close(self) -> None:
        """Close every env and end the workers; a second call does nothing."""
        if not self._closed:
            self._shut_down(polite=True)

    def _assign(self, factories: Sequence[EnvFactory]) -> list[Assignment]:
        bounds = np.linspace(0, len(factories), self.num_workers + 1).astype(int).tolist()
        return [
            Assignment(
                number=number,
                workers=self.num_workers,
                first=first,
                num_envs=self.num_envs,
                factories=CloudPickled(list(factories[first:last])),
                autoreset=self.autoreset,
                on_error=self.on_error,
                shares_batches=self._shares_batches,
                seeds=[None] * (last - first),
                finished=[False] * (last - first),
            )
            for number, (first, last) in enumerate(pairwise(bounds))
        ]

    def _connect_workers(self) -> None:
        """Receive the spaces of the envs, and share the memory that they need."""
        greetings = self._pool.greetings(range(self.num_workers), START_SECONDS)
        spaces = [self._greeting(worker, greetings[worker]) for worker in greetings]
        for assignment, own in zip(self._assignments, spaces, strict=True):
            check_spaces(0, spaces[0], assignment.first, own)
        self._set_spaces(spaces[0])
        self._memory = VectorMemory(
            self._observations, self._actions, self.num_envs, self.num_workers, self._shares_batches
        )
        self._block = SharedBlock.create(self._memory.size)
        self._memory.attach(self._block)
        if self._shares_batches:
            self._steps = [self._memory.step_of(slot) for slot in range(SLOTS)]
        for worker in range(self.num_workers):
            self._pool.share(worker, self._block, self._memory)

    def _greeting(self, worker: int, answer: WorkerReply | LostWorker) -> dict[str, Any]:
        if isinstance(answer, LostWorker):
            raise WorkerError(
                f"worker {worker} created no envs: {answer.reason}. In a script: {MAIN_GUARD}",
                env_index=self._assignments[worker].first,
                exit_code=answer.exit_code,
            )
        if answer.error is not None:
            raise answer.error
        spaces: dict[str, Any] = answer.value
        return spaces

    def _request(
        self, messages: Mapping[int, bytes], is_step: bool = False
    ) -> dict[int, WorkerReply]:
        """Send requests and return the replies; replace lost workers or raise their error."""
        try:
            replies = self._pool.exchange(messages, self.step_timeout)
        except BaseException:
            self._interrupted()
            raise
        replies_by_worker = {
            worker: reply for worker, reply in replies.items() if isinstance(reply, WorkerReply)
        }
        for worker, lost in replies.items():
            if isinstance(lost, LostWorker):
                error = self._error_of(worker, lost, is_step)
                replies_by_worker[worker] = self._replaced(worker, error, messages[worker])
        for answer in replies_by_worker.values():
            if answer.error is not None:
                self._fail(answer.error)
        return replies_by_worker

    def _request_all(
        self, name: str, arguments: Callable[[Assignment], tuple[Any, ...]]
    ) -> list[Any]:
        self._check_open()
        messages = {
            assignment.number: REQUEST + dumps((name, arguments(assignment)))
            for assignment in self._assignments
        }
        replies_by_worker = self._request(messages)
        return [value for worker in messages for value in replies_by_worker[worker].value or ()]

    def _replaced(self, worker: int, error: WorkerError, message: bytes) -> WorkerReply:
        """Restart a lost worker and send the request again; its envs know that they were lost."""
        if self.on_error == "raise":
            self._fail(error)
        assignment = self._assignments[worker]
        seeds = [self._seeds[index] for index in assignment.envs]
        finished = self._finished[assignment.first : assignment.envs.stop].tolist()
        again = replace(assignment, seeds=seeds, finished=finished, lost=str(error))
        self._pool.replace(worker, again)
        answer = self._pool.greetings([worker], START_SECONDS)[worker]
        if isinstance(answer, WorkerReply) and answer.error is None:
            assert self._block is not None, "there since the workers were met"
            self._pool.share(worker, self._block, self._memory)
            answer = self._pool.exchange({worker: message}, self.step_timeout)[worker]
        if isinstance(answer, LostWorker):
            self._fail(self._error_of(worker, answer, is_step=False))
        return answer

    def _error_of(self, worker: int, lost: LostWorker, is_step: bool) -> WorkerError:
        assignment = self._assignments[worker]
        index = assignment.first + int(self._memory.current[worker])
        return WorkerError(
            f"env {index} (seed {self._seeds[index]}) lost its worker: {lost.reason}",
            env_index=index,
            seed=self._seeds[index],
            last_action=self._action_of(index) if is_step else None,
            exit_code=lost.exit_code,
        )

    def _action_of(self, index: int) -> Any:
        return self._actions.rows(self._memory.actions_of(index, index + 1))[0]

    def _fail(self, error: BaseException) -> NoReturn:
        """Raise an error; close the vector env first if an env has failed."""
        if isinstance(error, WorkerError):
            with contextlib.suppress(SekaiError):
                self._shut_down(polite=True)
        raise error

    def _shut_down(self, polite: bool) -> None:
        self._closed = self._is_blocked = True
        self._finalizer.detach()
        errors = self._pool.close(polite)
        if self._block is not None:
            self._block.release_file()
        if errors:
            raise errors[0]

    def _payloads(self, replies_by_worker: Mapping[int, WorkerReply]) -> list[tuple[int, bytes]]:
        return [
            (self._assignments[worker].first, answer.pickled)
            for worker, answer in replies_by_worker.items()
            if answer.pickled is not None
        ]

    def _env_states(self) -> list[dict[str, Any]]:
        return self._request_all("state", lambda assignment: ())

    def _load_env_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        if len(states) != self.num_envs:
            raise StateError(f"expected states of {self.num_envs} envs, got {len(states)}")
        before = self._env_states()
        try:
            self._request_all(
                "load_state", lambda assignment: ([states[i] for i in assignment.envs],)
            )
        except StateError:
            self._request_all(
                "load_state", lambda assignment: ([before[i] for i in assignment.envs],)
            )
            raise
        self._seeds = [state["seed"] for state in states]
        self._finished[:] = [state["finished"] for state in states]

    def _last_batch(self) -> Any:
        return map_arrays(np.copy, self._steps[self._slot].observations)

    def _set_last_batch(self, batch: Any) -> None:
        if batch is not None:
            map_arrays(np.copyto, self._steps[self._slot].observations, batch)

    def _remember(self, indices: Sequence[int], observations: Any) -> None:
        """Do nothing: the last observations are in shared memory."""


class _PickledInfos(Infos):
    """Pickled infos from the workers; unpickled when read."""

    __slots__ = ("_indices", "_payloads")

    def __init__(self, indices: Sequence[int], payloads: list[tuple[int, bytes]]) -> None:
        super().__init__()
        self._indices = indices
        self._payloads = payloads

    def __len__(self) -> int:
        return len(self._indices)

    def _build(self) -> list[dict[str, Any]]:
        infos: dict[int, dict[str, Any]] = {}
        for first, payload in self._payloads:
            infos.update((first + index, info) for index, info in pickle.loads(payload).items())
        self._payloads = []
        return [infos.get(index, {}) for index in self._indices]


def worker_count(num_workers: int | None, num_envs: int) -> int:
    """Number of worker processes for `num_envs` envs; None is one per core."""
    if num_workers is None:
        affinity = getattr(os, "sched_getaffinity", None)
        num_workers = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    if num_workers < 1:
        raise ValueError(f"num_workers must be at least 1, got {num_workers}")
    return min(num_workers, num_envs)


class PipeVecEnv(ProcVecEnv):
    """`ProcVecEnv` that sends observations and actions through pipes, as pickles.

    Slower than shared memory, but supports spaces whose values vary in size: text, sequences,
    graphs. An env that fails closes the vector env. For the arguments see `ProcVecEnv`.
    """

    _shares_batches: ClassVar[bool] = False

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        *,
        num_workers: int | None = None,
        start_method: str | None = None,
        step_timeout: float | None = 300.0,
        autoreset: Autoreset = "same_step",
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        self._last_actions: dict[int, Any] = {}
        super().__init__(
            env_fns,
            num_workers=num_workers,
            start_method=start_method,
            step_timeout=step_timeout,
            autoreset=autoreset,
            backend=backend,
            copy=copy,
        )

    @exclusive
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        orders = self._orders(seed, options, ids)
        messages, indices = {}, [index for index, _, _ in orders]
        for assignment in self._assignments:
            local = [(p - assignment.first, s, o) for p, s, o in orders if p in assignment.envs]
            if local:
                messages[assignment.number] = REQUEST + dumps(("reset_by_pipe", (local,)))
        for index, env_seed, _ in orders:
            self._seeds[index] = self._seeds[index] if env_seed is None else env_seed
        results: list[ResetResult[Any]] = self._in_order(self._request(messages), indices)
        self._finished[indices] = False
        try:
            return self._reset_result(orders, results)
        except WorkerError as error:
            self._fail(error)

    @exclusive
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        chosen = self._chosen(ids)
        rows = self._actions.rows(self._checked_actions(actions, out, chosen))
        indices = list(range(self.num_envs)) if chosen is None else chosen
        self._last_actions.update(zip(indices, rows, strict=True))
        messages = {}
        for assignment in self._assignments:
            local = [index for index in indices if index in assignment.envs]
            if local:
                here = [index - assignment.first for index in local]
                request = ("step_by_pipe", (here, [self._last_actions[index] for index in local]))
                messages[assignment.number] = REQUEST + dumps(request)
        results: list[StepResult[Any]] = self._in_order(
            self._request(messages, is_step=True), indices
        )
        self._finished[indices] = [
            bool(result.terminated or result.truncated) and not has_autoreset(result)
            for result in results
        ]
        try:
            return self._step_result(results, out, chosen)
        except WorkerError as error:
            self._fail(error)

    def _in_order(
        self, replies_by_worker: dict[int, WorkerReply], indices: Sequence[int]
    ) -> list[Any]:
        """Return the results of the envs `indices`, in that order."""
        by_index: dict[int, Any] = {}
        for worker, answer in replies_by_worker.items():
            local = [index for index in indices if index in self._assignments[worker].envs]
            by_index.update(zip(local, answer.value, strict=True))
        return [by_index[index] for index in indices]

    def _action_of(self, index: int) -> Any:
        return self._last_actions.get(index)

    def _set_last_batch(self, batch: Any) -> None:
        """Do nothing: only restarts need the last observations."""
