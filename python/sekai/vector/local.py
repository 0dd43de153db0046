"""What vector envs share whose envs live in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sekai.backend import Backend
from sekai.error import WorkerError
from sekai.vector.base import BaseVecEnv, checked_factories
from sekai.vector.group import EnvFactory, EnvGroup, spaces_of
from sekai.vector.turn import in_turn

__all__ = ["LocalVecEnv"]


class LocalVecEnv(BaseVecEnv):
    """A vector of envs in this process."""

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
        """The envs themselves."""
        return self._group.envs

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        self._check_open()
        return self._group.get_attr(name)

    def set_attr(self, name: str, value: Any, *, per_env: bool = False) -> None:
        """Set an attribute of every env, in the outermost layer that has it."""
        self._group.set_attr(name, self._per_env_values(value, per_env))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of each env and give back what they return."""
        self._check_open()
        return self._group.call(name, args, kwargs)

    @in_turn
    def close(self) -> None:
        """Close every env. Closing twice is no error."""
        self._shut_down()

    def _shut_down(self) -> None:
        if not self._closed:
            self._closed = self._is_blocked = True
            self._group.close()

    def _failed(self, error: BaseException) -> None:
        self._interrupted()
        if isinstance(error, WorkerError):
            # What an env says when it is closed must not hide the error that is on its way.
            with contextlib.suppress(Exception):
                self._shut_down()

    def _env_states(self) -> list[dict[str, Any]]:
        return self._group.state()

    def _load_env_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        self._group.load_state(states)
