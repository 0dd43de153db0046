"""What all vector envs share: checks before a call, batches after it, and state."""

from __future__ import annotations

import copy as copying
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.backend import Backend, NumpyOps, get_backend
from sekai.core.result import ResetResult, StepResult, VecResetResult, VecStepResult
from sekai.error import ClosedError, ResetRequired, SpaceError, StateError
from sekai.vector.autoreset import Autoreset, checked_autoreset
from sekai.vector.batching import Batcher, to_backend, to_numpy
from sekai.vector.buffers import StepBuffers
from sekai.vector.faults import OnError, checked_on_error, unfit
from sekai.vector.group import EnvFactory, ResetOrder
from sekai.vector.infos import DictInfos, Infos
from sekai.vector.seeding import Seeds, per_env_options, per_env_seeds
from sekai.vector.turn import in_turn
from sekai.vector.vec_env import Ids, Options, VecEnv, checked_ids

__all__ = ["BaseVecEnv", "checked_factories"]

STATE_KEYS = frozenset({"num_envs", "autoreset", "must_reset", "last", "spaces", "envs"})


class BaseVecEnv(VecEnv):
    """A vector of envs; subclasses say where they run."""

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
        """The state of the envs."""

    @abstractmethod
    def _load_env_states(self, states: Any) -> None:
        """Give the envs their state, or raise `StateError` and leave all as they were."""

    def _set_spaces(self, spaces: Mapping[str, Any]) -> None:
        # Copies: sampling an action here must not move the stream of an env's own space.
        self.observation_space = copying.deepcopy(spaces["observation_space"])
        self.action_space = copying.deepcopy(spaces["action_space"])
        self._observations = Batcher(self.observation_space)
        self._actions = Batcher(self.action_space)

    def _orders(self, seed: Seeds, options: Options, ids: Ids | None) -> list[ResetOrder]:
        """What each env that is to be reset is told."""
        self._check_open()
        places = checked_ids(ids, self.num_envs)
        seeds = per_env_seeds(seed, places)
        return list(zip(places, seeds, per_env_options(options, len(places)), strict=True))

    def _chosen(self, ids: Ids | None) -> list[int] | None:
        """The envs that are to act; None for all of them."""
        return None if ids is None else checked_ids(ids, self.num_envs)

    def _checked_actions(
        self, actions: Any, out: StepBuffers | None, places: list[int] | None = None
    ) -> Any:
        """The actions as a batch of their own; nothing has moved if they, or `out`, are refused."""
        if self._is_blocked:
            self._check_ready(places)
        count = self.num_envs if places is None else len(places)
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
            places = [place for place, _, _ in orders]
            raise unfit(self._observations, samples, places) from None
        infos = DictInfos([result.info for result in results])
        return self._reset_batch(orders, observations, infos)

    def _reset_batch(
        self, orders: Sequence[ResetOrder], observations: Any, infos: Infos
    ) -> VecResetResult[Any]:
        places = [place for place, _, _ in orders]
        self._must_reset[places] = False
        self._is_blocked = bool(self._must_reset.any())
        if self.on_error == "restart":
            self._remember(places, observations)
        return VecResetResult(self._to_backend(observations), infos)

    def _step_result(
        self,
        results: Sequence[StepResult[Any]],
        out: StepBuffers | None,
        places: list[int] | None = None,
    ) -> VecStepResult[Any]:
        observations = [result.observation for result in results]
        rewards = [result.reward for result in results]
        terminated = [result.terminated for result in results]
        truncated = [result.truncated for result in results]
        infos = DictInfos([result.info for result in results])
        try:
            if out is None and (self.copy or places is not None):
                return self._step_batch(
                    self._observations.stack(observations),
                    np.array(rewards, np.float64),
                    np.array(terminated, np.bool_),
                    np.array(truncated, np.bool_),
                    infos,
                    places,
                )
            target = self._spare_buffers() if out is None else out
            self._observations.write(observations, target.observations)
        except SpaceError:
            indices = range(self.num_envs) if places is None else places
            raise unfit(self._observations, observations, indices) from None
        target.rewards[:] = rewards
        target.terminated[:] = terminated
        target.truncated[:] = truncated
        target.fill_finals(infos)
        return self._step_batch(
            target.observations, target.rewards, target.terminated, target.truncated, infos, places
        )

    def _step_batch(
        self,
        observations: Any,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        infos: Infos,
        places: list[int] | None = None,
    ) -> VecStepResult[Any]:
        if self.autoreset == "disabled":
            if places is None:
                self._must_reset = terminated | truncated
            else:
                self._must_reset[places] = terminated | truncated
            self._is_blocked = bool(self._must_reset.any())
        if places is None:
            self._last = observations
        elif self.on_error == "restart":
            self._remember(places, observations)
        if self._is_numpy:
            return VecStepResult(observations, rewards, terminated, truncated, infos)
        convert = self._to_backend
        return VecStepResult(
            convert(observations), convert(rewards), convert(terminated), convert(truncated), infos
        )

    def _spare_buffers(self) -> StepBuffers:
        """Two sets of buffers in turn: the result before this one stays as it is."""
        while len(self._spare) < 2:
            self._spare.append(StepBuffers.allocate(self._observations, self.num_envs))
        self._spare.reverse()
        return self._spare[0]

    def _check_out(self, out: StepBuffers, count: int) -> None:
        if not self._is_numpy:
            raise ValueError("out takes NumPy arrays, and so needs backend='numpy'")
        if self._template is None or len(self._template.rewards) != count:
            self._template = StepBuffers.allocate(self._observations, count)
        out.check(self._template)

    def _remember(self, places: Sequence[int], observations: Any) -> None:
        if len(places) == self.num_envs and list(places) == list(range(self.num_envs)):
            self._last = observations
            return
        if self._last is None:
            self._last = self._observations.allocate(self.num_envs)
        rows = self._observations.rows(self._last)
        for place, row in zip(places, self._observations.rows(observations), strict=True):
            rows[place] = row
        # A new batch: the one before it is in the caller's hands.
        self._last = self._observations.stack(rows)

    def _last_batch(self) -> Any:
        return copying.deepcopy(self._last)

    def _set_last_batch(self, batch: Any) -> None:
        self._last = copying.deepcopy(batch)

    def _last_observation(self, place: int) -> Any:
        return self._observations.copied(self._observations.rows(self._last)[place])

    def _to_backend(self, batch: Any) -> Any:
        return to_backend(self.backend, batch)

    def _interrupted(self) -> None:
        """Some envs may have moved and others not: all of them must begin anew."""
        self._must_reset[:] = True
        self._is_blocked = True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the {type(self).__name__} is closed: build another one")

    def _check_ready(self, places: list[int] | None) -> None:
        """Refuse a step of envs whose episode is over, or has not begun."""
        self._check_open()
        everyone = np.flatnonzero(self._must_reset).tolist()
        waiting = everyone if places is None else [place for place in places if place in everyone]
        if not waiting:
            return
        if len(waiting) == self.num_envs:
            raise ResetRequired("every env waits for its first episode: call reset() before step()")
        raise ResetRequired(
            f"the episodes of the envs {waiting} are over: call reset(ids={waiting}) before step()"
        )

    def _per_env_values(self, value: Any, per_env: bool) -> list[Any]:
        self._check_open()
        if not per_env:
            return [value] * self.num_envs
        values = list(value)
        if len(values) != self.num_envs:
            raise ValueError(
                f"{self.num_envs} values were wanted, one per env, found {len(values)}"
            )
        return values

    @property
    def closed(self) -> bool:
        """Whether the vector has been closed."""
        return self._closed

    @in_turn
    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue all envs from here; any backend of sekai can load it."""
        self._check_open()
        return {
            "num_envs": self.num_envs,
            "autoreset": self.autoreset,
            "must_reset": self._must_reset.copy(),
            "last": self._last_batch() if self.on_error == "restart" else None,
            "spaces": [self.observation_space.state_dict(), self.action_space.state_dict()],
            "envs": self._env_states(),
        }

    @in_turn
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        self._check_open()
        if state_dict.keys() != STATE_KEYS:
            raise StateError(
                f"the state of a vector env has the keys {sorted(STATE_KEYS)}, "
                f"found {sorted(map(str, state_dict))}"
            )
        for name in ("num_envs", "autoreset"):
            if state_dict[name] != getattr(self, name):
                raise StateError(
                    f"a state with {name}={getattr(self, name)!r} was wanted, "
                    f"found {state_dict[name]!r}"
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
    """The functions that build the envs, or an error that says what they must be."""
    factories = list(env_fns)
    if not factories:
        raise ValueError("a vector env needs at least one env, found none")
    for index, factory in enumerate(factories):
        if not callable(factory):
            raise TypeError(
                f"env_fns must hold functions that build an env, such as classes or lambdas; "
                f"item {index} is {factory!r}"
            )
    return factories
