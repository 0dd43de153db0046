"""SyncVecEnv: envs stepped in sequence in this process; fastest for cheap envs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sekai.backend import Backend
from sekai.core.autoreset import Autoreset
from sekai.core.result import VecResetResult, VecStepResult
from sekai.error import WorkerError
from sekai.vector.base import BaseVecEnv, checked_factories, exclusive
from sekai.vector.batching import StepBuffers
from sekai.vector.group import EnvFactory, EnvGroup, OnError, spaces_of
from sekai.vector.vec_env import Ids, Options, Seeds


class LocalVecEnv(BaseVecEnv):
    """Base class of vector envs whose envs are in this process."""

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        autoreset: str,
        on_error: str,
        backend: Backend,
        copy: bool,
    ) -> None:
        factories = checked_factories(env_fns)
        super().__init__(len(factories), autoreset, on_error, backend, copy)
        self._group = EnvGroup(factories, autoreset=self.autoreset, on_error=self.on_error)
        self._group.last_observation = self._last_observation
        self._set_spaces(spaces_of(self._group.envs[0]))

    @property
    def envs(self) -> list[Any]:
        """The envs."""
        return self._group.envs

    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        self._check_open()
        return self._group.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        self._group.set_attr(name, self._per_env_values(value, per_env))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and return the results."""
        self._check_open()
        return self._group.call(name, args, kwargs)

    @exclusive
    def close(self) -> None:
        """Close every env; a second call does nothing."""
        self._shut_down()

    def _shut_down(self) -> None:
        if not self._closed:
            self._closed = self._is_blocked = True
            self._group.close()

    def _failed(self, error: BaseException) -> None:
        self._interrupted()
        if isinstance(error, WorkerError):
            # An error in close must not hide the original error.
            with contextlib.suppress(Exception):
                self._shut_down()

    def _env_states(self) -> list[dict[str, Any]]:
        return self._group.state()

    def _load_env_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        self._group.load_state(states)


class SyncVecEnv(LocalVecEnv):
    """Vector env that steps its envs in sequence.

    Args:
        env_fns: functions that create one env each.
        autoreset: autoreset mode; see `Autoreset`.
        on_error: treatment of an env that raises; see `OnError`.
        backend: array backend of results.
        copy: False lets a result share its arrays with the second result after it.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFactory],
        *,
        autoreset: Autoreset = "same_step",
        on_error: OnError = "raise",
        backend: Backend = "numpy",
        copy: bool = True,
    ) -> None:
        super().__init__(env_fns, autoreset, on_error, backend, copy)

    @exclusive
    def reset(
        self, *, seed: Seeds = None, options: Options = None, ids: Ids | None = None
    ) -> VecResetResult[Any]:
        """Reset all envs, or only those in `ids`."""
        orders = self._orders(seed, options, ids)
        try:
            return self._reset_result(orders, self._group.reset(orders))
        except BaseException as error:
            self._failed(error)
            raise

    @exclusive
    def step(
        self, actions: Any, *, ids: Ids | None = None, out: StepBuffers | None = None
    ) -> VecStepResult[Any]:
        """Step all envs, or only those in `ids`."""
        indices = self._chosen(ids)
        rows = self._actions.rows(self._checked_actions(actions, out, indices))
        try:
            return self._step_result(self._group.step(rows, indices), out, indices)
        except BaseException as error:
            self._failed(error)
            raise
