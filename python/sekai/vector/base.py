"""Base class of vector envs: argument checks, batched results, state and the reentrancy guard."""

from __future__ import annotations

import copy as copying
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import split_steps
from sekai.backend import Backend, NumpyOps, get_backend
from sekai.core.autoreset import Autoreset, checked_autoreset
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.error import BusyError, ClosedError, ResetRequired, SpaceError, StateError
from sekai.vector.batching import Batcher, StepBuffers, to_backend, to_numpy
from sekai.vector.group import EnvFactory, OnError, ResetOrder, checked_on_error, observation_error
from sekai.vector.infos import DictInfos, Infos
from sekai.vector.vec_env import (
    Ids,
    Options,
    Seeds,
    VecEnv,
    checked_ids,
    per_env_options,
    per_env_seeds,
)


class HasBusyFlag(Protocol):
    """Object with calls that must not overlap."""

    _is_busy: bool


Caller = TypeVar("Caller", bound=HasBusyFlag)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def exclusive(
    method: Callable[Concatenate[Caller, Arguments], Result],
) -> Callable[Concatenate[Caller, Arguments], Result]:
    """Decorator: raise `BusyError` while another call, in any thread, is running."""

    @wraps(method)
    def guarded(self: Caller, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if self._is_busy:
            raise busy_error(self)
        # No call between the check and this assignment, so that the interpreter switches neither
        # to another thread nor to a signal handler. A lock would work but is not picklable.
        self._is_busy = True
        try:
            return method(self, *args, **kwargs)
        finally:
            self._is_busy = False

    return guarded


def busy_error(vec: HasBusyFlag) -> BusyError:
    """Return the error for overlapping calls."""
    return BusyError(
        f"another call of this {type(vec).__name__} is running; wait until it returns "
        f"(await it, or share a lock between threads), or create one vector env per thread"
    )


STATE_KEYS = frozenset({"num_envs", "autoreset", "must_reset", "last", "spaces", "envs"})


class BaseVecEnv(VecEnv):
    """Base class of sekai's vector envs; subclasses define where the envs run."""

    def __init__(
        self, num_envs: int, autoreset: str, on_error: str, backend: Backend, copy: bool
    ) -> None:
        self.num_envs = num_envs
        self.autoreset: Autoreset = checked_autoreset(autoreset)
        self.on_error: OnError = checked_on_error(on_error)
        self.backend = get_backend(backend)
        self.copy = copy
        self._is_numpy = isinstance(self.backend, NumpyOps)
        self._closed = False
        self._is_busy = False
        self._must_reset = np.ones(num_envs, np.bool_)
        self._is_blocked = True
        self._last: Any = None
        self._spare: list[StepBuffers] = []
        self._template: StepBuffers | None = None

    @abstractmethod
    def _env_states(self) -> Any:
        """Return the states of the envs."""

    @abstractmethod
    def _load_env_states(self, states: Any) -> None:
        """Load the states of the envs, or raise `StateError` and change nothing."""

    def _set_spaces(self, spaces: Mapping[str, Any]) -> None:
        # Copies: sampling here must not advance the generator of an env's own space.
        self.observation_space = copying.deepcopy(spaces["observation_space"])
        self.action_space = copying.deepcopy(spaces["action_space"])
        self._observations = Batcher(self.observation_space)
        self._actions = Batcher(self.action_space)

    def _orders(self, seed: Seeds, options: Options, ids: Ids | None) -> list[ResetOrder]:
        """Return index, seed and options of each env that is reset."""
        self._check_open()
        indices = checked_ids(ids, self.num_envs)
        seeds = per_env_seeds(seed, indices)
        return list(zip(indices, seeds, per_env_options(options, len(indices)), strict=True))

    def _chosen(self, ids: Ids | None) -> list[int] | None:
        """Return the indices of the envs that act; None for all of them."""
        return None if ids is None else checked_ids(ids, self.num_envs)

    def _checked_actions(
        self, actions: Any, out: StepBuffers | None, indices: list[int] | None = None
    ) -> Any:
        """Validate actions and `out`, and return the actions as a new batch."""
        if self._is_blocked:
            self._check_ready(indices)
        count = self.num_envs if indices is None else len(indices)
        if out is not None:
            self._check_out(out, count)
        if not self._is_numpy:
            actions = to_numpy(actions)
        if not count and not len(actions):
            return self._actions.allocate(0)
        return self._actions.actions(actions, count)

    def _reset_result(
        self, orders: Sequence[ResetOrder], results: Sequence[ResetResult[Any]]
    ) -> VecResetResult[Any]:
        samples = [result.observation for result in results]
        try:
            observations = self._observations.stack(samples)
        except SpaceError:
            indices = [index for index, _, _ in orders]
            raise observation_error(self._observations, samples, indices) from None
        infos = DictInfos([result.info for result in results])
        return self._reset_batch(orders, observations, infos)

    def _reset_batch(
        self, orders: Sequence[ResetOrder], observations: Any, infos: Infos
    ) -> VecResetResult[Any]:
        indices = [index for index, _, _ in orders]
        self._must_reset[indices] = False
        self._is_blocked = bool(self._must_reset.any())
        if self.on_error == "restart":
            self._remember(indices, observations)
        return VecResetResult(self._to_backend(observations), infos)

    def _step_result(
        self,
        results: list[StepResult[Any]],
        out: StepBuffers | None,
        indices: list[int] | None = None,
    ) -> VecStepResult[Any]:
        observations, rewards, terminated, truncated, dicts = split_steps(results)
        infos = DictInfos(dicts)
        try:
            if out is None and (self.copy or indices is not None):
                batch = self._observations.stack(observations)
                return self._step_batch(batch, rewards, terminated, truncated, infos, indices)
            target = self._spare_buffers() if out is None else out
            self._observations.write(observations, target.observations)
        except SpaceError:
            stepped = range(self.num_envs) if indices is None else indices
            raise observation_error(self._observations, observations, stepped) from None
        target.rewards[:] = rewards
        target.terminated[:] = terminated
        target.truncated[:] = truncated
        target.fill_finals(infos)
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, indices
        )

    def _step_batch(
        self,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Infos,
        indices: list[int] | None = None,
    ) -> VecStepResult[Any]:
        if self.autoreset == "disabled":
            if indices is None:
                self._must_reset = terminated | truncated
            else:
                self._must_reset[indices] = terminated | truncated
            self._is_blocked = bool(self._must_reset.any())
        if indices is None:
            self._last = observations
        elif self.on_error == "restart":
            self._remember(indices, observations)
        if self._is_numpy:
            return VecStepResult(observations, rewards, terminated, truncated, infos)
        convert = self._to_backend
        return VecStepResult(
            convert(observations), convert(rewards), convert(terminated), convert(truncated), infos
        )

    def _spare_buffers(self) -> StepBuffers:
        """Alternate between two sets of buffers, so that the previous result stays valid."""
        while len(self._spare) < 2:
            self._spare.append(StepBuffers.allocate(self._observations, self.num_envs))
        self._spare.reverse()
        return self._spare[0]

    def _check_out(self, out: StepBuffers, count: int) -> None:
        if not self._is_numpy:
            raise ValueError("out requires backend='numpy'")
        if self._template is None or len(self._template.rewards) != count:
            self._template = StepBuffers.allocate(self._observations, count)
        out.check(self._template)

    def _remember(self, indices: Sequence[int], observations: Any) -> None:
        if len(indices) == self.num_envs and list(indices) == list(range(self.num_envs)):
            self._last = observations
            return
        if self._last is None:
            self._last = self._observations.allocate(self.num_envs)
        rows = self._observations.rows(self._last)
        for index, row in zip(indices, self._observations.rows(observations), strict=True):
            rows[index] = row
        # A new batch: the caller may hold the previous one.
        self._last = self._observations.stack(rows)

    def _last_batch(self) -> Any:
        return copying.deepcopy(self._last)

    def _set_last_batch(self, batch: Any) -> None:
        self._last = copying.deepcopy(batch)

    def _last_observation(self, index: int) -> Any:
        return self._observations.copied(self._observations.rows(self._last)[index])

    def _to_backend(self, batch: Any) -> Any:
        return to_backend(self.backend, batch)

    def _interrupted(self) -> None:
        """Require a reset of all envs: some may have been stepped and others not."""
        self._must_reset[:] = True
        self._is_blocked = True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{type(self).__name__} is closed; create a new one")

    def _check_ready(self, indices: list[int] | None) -> None:
        """Raise `ResetRequired` for envs without a running episode."""
        self._check_open()
        must_reset = np.flatnonzero(self._must_reset).tolist()
        waiting = (
            must_reset if indices is None else [index for index in indices if index in must_reset]
        )
        if not waiting:
            return
        if len(waiting) == self.num_envs:
            raise ResetRequired("no episode has started; call reset() before step()")
        raise ResetRequired(
            f"episodes of envs {waiting} are over; call reset(ids={waiting}) before step()"
        )

    def _per_env_values(self, value: Any, per_env: bool) -> list[Any]:
        self._check_open()
        if not per_env:
            return [value] * self.num_envs
        values = list(value)
        if len(values) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} values, one per env, got {len(values)}")
        return values

    @property
    def closed(self) -> bool:
        """True if the vector env has been closed."""
        return self._closed

    @exclusive
    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which all envs continue bit for bit."""
        self._check_open()
        return {
            "num_envs": self.num_envs,
            "autoreset": self.autoreset,
            "must_reset": self._must_reset.copy(),
            "last": self._last_batch() if self.on_error == "restart" else None,
            "spaces": [self.observation_space.state_dict(), self.action_space.state_dict()],
            "envs": self._env_states(),
        }

    @exclusive
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""
        self._check_open()
        if state_dict.keys() != STATE_KEYS:
            raise StateError(
                f"expected the state of a vector env with the keys {sorted(STATE_KEYS)}, "
                f"got {sorted(map(str, state_dict))}"
            )
        for name in ("num_envs", "autoreset"):
            if state_dict[name] != getattr(self, name):
                raise StateError(
                    f"expected a state with {name}={getattr(self, name)!r}, "
                    f"got {state_dict[name]!r}"
                )
        spaces = (self.observation_space, self.action_space)
        before = [space.state_dict() for space in spaces]
        try:
            for space, state in zip(spaces, state_dict["spaces"], strict=True):
                space.load_state_dict(state)
            self._load_env_states(state_dict["envs"])
        except Exception:
            for space, state in zip(spaces, before, strict=True):
                space.load_state_dict(state)
            raise
        self._must_reset = state_dict["must_reset"].copy()
        self._is_blocked = bool(self._must_reset.any())
        self._set_last_batch(state_dict["last"])


def checked_factories(env_fns: Sequence[EnvFactory]) -> list[EnvFactory]:
    """Return the env factories as a list, or raise an error."""
    factories = list(env_fns)
    if not factories:
        raise ValueError("expected at least one env, got none")
    for index, factory in enumerate(factories):
        if not callable(factory):
            raise TypeError(
                f"env_fns must hold functions that create an env, such as classes or lambdas; "
                f"item {index} is {factory!r}"
            )
    return factories
