"""AsyncVecEnv: asyncio envs stepped concurrently; a step takes as long as the slowest env."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.backend import Backend
from sekai.core.autoreset import Autoreset, autoreset_result, has_autoreset, step_from_reset
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.core.sync_async import run_coroutine
from sekai.vector.base import busy_error
from sekai.vector.batching import StepBuffers
from sekai.vector.group import EnvFactory, OnError, Restart, env_error
from sekai.vector.sync import LocalVecEnv
from sekai.vector.vec_env import Ids, Options, Seeds

if TYPE_CHECKING:
    import asyncio


Result = TypeVar("Result")

STOP_SECONDS = 5.0
"""Seconds that cancelled envs have to clean up."""


class AsyncVecEnv(LocalVecEnv):
    """Vector env that awaits `async_step` and `async_reset` of all envs concurrently.

    Use `await vec.async_step(actions)` in a running loop; `vec.step(actions)` works in sync code,
    in any thread and in notebooks. If an env raises, the others finish their step before the error
    is raised. Cancelling a step cancels the steps of all envs and waits for them; then the vector
    env must be reset.

    Args:
        env_fns: functions that create one env each.
        autoreset: autoreset mode; see `Autoreset`.
        on_error: treatment of an env that raises or times out; see `OnError`.
        step_timeout: seconds that an env may take for a step or a reset; None for no limit.
        backend: array backend of results.
        copy: False lets a result share its arrays with the second result after it.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        *,
        autoreset: Autoreset = "same_step",
        on_error: OnError = "raise",
        step_timeout: float | None = None,
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        super().__init__(env_fns, autoreset, on_error, backend, copy)
        self.step_timeout = step_timeout

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        return run_coroutine(self.async_reset(seed=seed, options=options, ids=ids))

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        return run_coroutine(self.async_step(actions, ids=ids, out=out))

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset envs without blocking the event loop."""
        with self._turn():
            orders = self._orders(seed, options, ids)
            results = await self._together([self._reset_one(*order) for order in orders])
            return self._reset_result(orders, results)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step envs without blocking the event loop."""
        with self._turn():
            indices = self._chosen(ids)
            rows = self._actions.rows(self._checked_actions(actions, out, indices))
            acting = range(self.num_envs) if indices is None else indices
            results = await self._together(
                [self._step_one(index, action) for index, action in zip(acting, rows, strict=True)]
            )
            return self._step_result(results, out, indices)

    async def _step_one(self, index: int, action: Any) -> StepResult[Any]:
        group = self._group
        if group.finished[index] and self.autoreset == "next_step":
            return step_from_reset(await self._reset_one(index))
        try:
            result = await self._timed(group.envs[index].async_step(action))
        except Exception as error:
            restart = group.rebuilt(
                index, env_error(error, "step", *group.index_and_seed(index), action)
            )
            return group.settled(index, restart, await self._reset_again(index, restart))
        if result.done and not has_autoreset(result):
            if self.autoreset == "same_step":
                # The reset may overwrite the array of the last observation.
                final = self._observations.copied(result.observation)
                return autoreset_result(result, final, await self._reset_one(index))
            group.finished[index] = True
        return result

    async def _reset_one(
        self, index: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        group = self._group
        group.begin(index, seed)
        try:
            return await self._timed(group.envs[index].async_reset(seed=seed, options=options))
        except Exception as error:
            restart = group.rebuilt(index, env_error(error, "reset", *group.index_and_seed(index)))
        return group.with_restart(await self._reset_again(index, restart, options), restart)

    async def _reset_again(
        self, index: int, restart: Restart, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        env = self._group.envs[index]
        try:
            return await self._timed(env.async_reset(seed=restart.seed, options=options))
        except Exception as error:
            raise self._group.failed_again(index, error) from error

    async def _timed(self, answer: Coroutine[Any, Any, Result]) -> Result:
        if self.step_timeout is None:
            return await answer
        import asyncio

        try:
            return await asyncio.wait_for(answer, self.step_timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no result within {self.step_timeout} seconds") from None

    async def _together(self, jobs: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
        """Await all jobs, then raise the first error; if cancelled, cancel the jobs."""
        import asyncio

        if not jobs:
            return []
        tasks = [asyncio.ensure_future(job) for job in jobs]
        try:
            await asyncio.wait(tasks)
            # Retrieve all exceptions, so that asyncio reports none as never retrieved.
            errors = [task.exception() for task in tasks if not task.cancelled()]
            for error in filter(None, errors):
                raise error
            return [task.result() for task in tasks]
        except BaseException as error:
            await _stop(tasks)
            self._failed(error)
            raise

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._is_busy:
            raise busy_error(self)
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


async def _stop(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel running tasks and wait until they have ended."""
    import asyncio

    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=STOP_SECONDS)
