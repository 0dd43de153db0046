"""Envs that wait for the outside world, all at once: a step takes as long as the slowest env."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sekai.backend import Backend
from sekai.core import aio
from sekai.core.autoreset import has_reset_itself, joined
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.vector.autoreset import Autoreset, fresh
from sekai.vector.buffers import StepBuffers
from sekai.vector.faults import OnError, Restart, failure
from sekai.vector.group import EnvFactory
from sekai.vector.local import LocalVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.turn import busy
from sekai.vector.vec_env import Ids, Options

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncVecEnv"]

Result = TypeVar("Result")

STOP_SECONDS = 5.0
"""How long cancelled envs may take to put their affairs in order."""


class AsyncVecEnv(LocalVecEnv):
    """Awaits `async_step` and `async_reset` of all its envs together.

    Use `await vec.async_step(actions)` in a running loop; `vec.step(actions)` works in sync code,
    in any thread, and in a notebook. If an env raises, the others finish their step before the
    error is raised. A step that is cancelled cancels the steps of its envs and waits for them, so
    that no env is left in mid-step; then the vector must be reset.
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
        """Build the envs.

        Args:
            env_fns: functions that build one env each.
            autoreset: when the next episode begins; see `Autoreset`.
            on_error: what becomes of an env that raises or is too slow; see `OnError`.
            step_timeout: seconds an env may take for a step or a reset; None waits for ever.
            backend: who makes the arrays of results.
            copy: False lets a result share its arrays with the second result after it.
        """
        super().__init__(env_fns, autoreset, on_error, backend, copy)
        self.step_timeout = step_timeout

    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        return aio.run(self.async_reset(seed=seed, options=options, ids=ids))

    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids` alone, act once, all at the same time."""
        return aio.run(self.async_step(actions, ids=ids, out=out))

    async def async_reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, without blocking the event loop."""
        with self._turn():
            orders = self._orders(seed, options, ids)
            results = await self._together([self._reset_one(*order) for order in orders])
            return self._reset_result(orders, results)

    async def async_step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let envs act once, all at the same time, without blocking the event loop."""
        with self._turn():
            places = self._chosen(ids)
            rows = self._actions.rows(self._checked_actions(actions, out, places))
            acting = range(self.num_envs) if places is None else places
            results = await self._together(
                [self._step_one(place, action) for place, action in zip(acting, rows, strict=True)]
            )
            return self._step_result(results, out, places)

    async def _step_one(self, place: int, action: Any) -> StepResult[Any]:
        group = self._group
        if group.finished[place] and self.autoreset == "next_step":
            return fresh(await self._reset_one(place))
        try:
            result = await self._timed(group.envs[place].async_step(action))
        except Exception as error:
            told = failure(error, "step", *group.who(place), action)
            restart = group.rebuilt(place, told)
            return group.settled(place, restart, await self._reset_again(place, restart))
        if result.done and not has_reset_itself(result):
            if self.autoreset == "same_step":
                # The reset may write into the array that the env has shown.
                final = self._observations.copied(result.observation)
                return joined(result, final, await self._reset_one(place))
            group.finished[place] = True
        return result

    async def _reset_one(
        self, place: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        group = self._group
        group.begin(place, seed)
        try:
            return await self._timed(group.envs[place].async_reset(seed=seed, options=options))
        except Exception as error:
            restart = group.rebuilt(place, failure(error, "reset", *group.who(place)))
        return group.with_restart(await self._reset_again(place, restart, options), restart)

    async def _reset_again(
        self, place: int, restart: Restart, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        env = self._group.envs[place]
        try:
            return await self._timed(env.async_reset(seed=restart.seed, options=options))
        except Exception as error:
            raise self._group.failed_again(place, error) from error

    async def _timed(self, answer: Coroutine[Any, Any, Result]) -> Result:
        if self.step_timeout is None:
            return await answer
        import asyncio

        try:
            return await asyncio.wait_for(answer, self.step_timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no answer within {self.step_timeout} seconds") from None

    async def _together(self, jobs: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
        """Wait for all jobs, then raise the first env's error; a cancelled wait cancels them."""
        import asyncio

        if not jobs:
            return []
        tasks = [asyncio.ensure_future(job) for job in jobs]
        try:
            await asyncio.wait(tasks)
            # All are asked, so that none is reported as an error that nobody has seen.
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
            raise busy(self)
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


async def _stop(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and wait until it has ended; what failed before has been seen."""
    import asyncio

    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=STOP_SECONDS)
