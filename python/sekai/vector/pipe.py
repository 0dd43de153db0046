"""Envs in worker processes that pickle what they see: the way for values of no fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sekai.backend import Backend
from sekai.core.autoreset import has_reset_itself
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.error import WorkerError
from sekai.vector.autoreset import Autoreset
from sekai.vector.buffers import StepBuffers
from sekai.vector.crew import Answer
from sekai.vector.group import EnvFactory
from sekai.vector.proc import ProcVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.turn import in_turn
from sekai.vector.vec_env import Ids, Options
from sekai.vector.wire import REQUEST, dumps

__all__ = ["PipeVecEnv"]


class PipeVecEnv(ProcVecEnv):
    """A `ProcVecEnv` in which observations and actions go through pipes, as pickles.

    Slower than shared memory, but open to spaces whose values differ in size: texts, sequences,
    graphs. An env that fails closes the vector.
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
        """Begin the workers, which build the envs; see `ProcVecEnv` for the arguments."""
        self._given: dict[int, Any] = {}
        super().__init__(
            env_fns,
            num_workers=num_workers,
            start_method=start_method,
            step_timeout=step_timeout,
            autoreset=autoreset,
            backend=backend,
            copy=copy,
        )

    @in_turn
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        orders = self._orders(seed, options, ids)
        messages, places = {}, [place for place, _, _ in orders]
        for mine in self._assignments:
            local = [(p - mine.first, s, o) for p, s, o in orders if p in mine.envs]
            if local:
                messages[mine.number] = REQUEST + dumps(("reset_by_pipe", (local,)))
        for place, one_seed, _ in orders:
            self._seeds[place] = self._seeds[place] if one_seed is None else one_seed
        told: list[ResetResult[Any]] = self._told(self._asked(messages), places)
        self._finished[places] = False
        try:
            return self._reset_result(orders, told)
        except WorkerError as error:
            self._give_up(error)

    @in_turn
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids`, act once, as many at a time as there are workers."""
        chosen = self._chosen(ids)
        rows = self._actions.rows(self._checked_actions(actions, out, chosen))
        places = list(range(self.num_envs)) if chosen is None else chosen
        self._given.update(zip(places, rows, strict=True))
        messages = {}
        for mine in self._assignments:
            local = [place for place in places if place in mine.envs]
            if local:
                here = [place - mine.first for place in local]
                request = ("step_by_pipe", (here, [self._given[place] for place in local]))
                messages[mine.number] = REQUEST + dumps(request)
        told: list[StepResult[Any]] = self._told(self._asked(messages, is_step=True), places)
        self._finished[places] = [
            bool(result.terminated or result.truncated) and not has_reset_itself(result)
            for result in told
        ]
        try:
            return self._step_result(told, out, chosen)
        except WorkerError as error:
            self._give_up(error)

    def _told(self, answers: dict[int, Answer], places: Sequence[int]) -> list[Any]:
        """What the envs at `places` have told, in that order."""
        by_place: dict[int, Any] = {}
        for worker, answer in answers.items():
            local = [place for place in places if place in self._assignments[worker].envs]
            by_place.update(zip(local, answer.value, strict=True))
        return [by_place[place] for place in places]

    def _action_of(self, index: int) -> Any:
        return self._given.get(index)

    def _set_last_batch(self, batch: Any) -> None:
        """Nothing to do: only envs that begin anew need what was seen last."""
