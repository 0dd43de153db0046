"""Envs that run one after another in this process: the quickest way for quick envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sekai.backend import Backend
from sekai.core.result import VecResetResult, VecStepResult
from sekai.vector.autoreset import Autoreset
from sekai.vector.buffers import StepBuffers
from sekai.vector.faults import OnError
from sekai.vector.group import EnvFactory
from sekai.vector.local import LocalVecEnv
from sekai.vector.seeding import Seeds
from sekai.vector.turn import in_turn
from sekai.vector.vec_env import Ids, Options

__all__ = ["SyncVecEnv"]


class SyncVecEnv(LocalVecEnv):
    """Steps its envs one after another."""

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        *,
        autoreset: Autoreset = "same_step",
        on_error: OnError = "raise",
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        """Build the envs.

        Args:
            env_fns: functions that build one env each.
            autoreset: when the next episode begins; see `Autoreset`.
            on_error: what becomes of an env that raises; see `OnError`.
            backend: who makes the arrays of results.
            copy: False lets a result share its arrays with the second result after it.
        """
        super().__init__(env_fns, autoreset, on_error, backend, copy)

    @in_turn
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Begin an episode in every env, or in those of `ids` alone."""
        orders = self._orders(seed, options, ids)
        try:
            return self._reset_result(orders, self._group.reset(orders))
        except BaseException as error:
            self._failed(error)
            raise

    @in_turn
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Let every env, or those of `ids` alone, act once, one after another."""
        places = self._chosen(ids)
        rows = self._actions.rows(self._checked_actions(actions, out, places))
        try:
            return self._step_result(self._group.step(rows, places), out, places)
        except BaseException as error:
            self._failed(error)
            raise
