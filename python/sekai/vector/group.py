"""Env group: envs stepped in sequence, with autoreset, error handling and restarts."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from sekai.core.autoreset import Autoreset, autoreset_result, has_autoreset, step_from_reset
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError, StateError, WorkerError
from sekai.vector.batching import Batcher
from sekai.vector.vec_env import restart_seed

EnvFactory: TypeAlias = Callable[[], Env[Any, Any]]
ResetOrder: TypeAlias = "tuple[int, int | None, dict[str, Any] | None]"
"""Index of an env in its group, and the seed and options of its reset."""


OnError: TypeAlias = Literal["raise", "restart"]
"""Treatment of failing envs.

`raise`: a `WorkerError` is raised and the vector env is closed. `restart`: the failed env is
created anew and seeded from its own seed; its episode is truncated at the last observation, and its
info has a `Restart` under "restart". Other envs are not affected.
"""


RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart of an env after a failure."""

    reason: str
    """Error message of the failure."""

    seed: int | None
    """Seed of the restarted env; None if it never had one."""

    restarts: int
    """Number of restarts of this env so far."""


class EnvGroup:
    """Creates, steps, resets and, if requested, restarts a list of envs.

    All backends share these methods, so that autoreset, restarts and errors are the same whether
    the envs are in this process, in an event loop or in a worker process.
    """

    def __init__(
        self,
        factories: Sequence[EnvFactory],
        *,
        first_index: int = 0,
        autoreset: Autoreset = "same_step",
        on_error: OnError = "raise",
    ) -> None:
        self.factories = list(factories)
        self.first_index = first_index
        self.autoreset = autoreset
        self.on_error = on_error
        self.envs: list[Env[Any, Any]] = []
        self.finished = [False] * len(self.factories)
        self.seeds: list[int | None] = [None] * len(self.factories)
        self.restarts = np.zeros(len(self.factories), np.int64)
        self.lost: dict[int, str] = {}
        """Reason by index of envs that were created anew after their process died."""
        self._build_all()
        self.observations = Batcher(self.envs[0].observation_space)
        self.last_observation: Callable[[int], Any] | None = None
        """Returns the observation before the current step, for envs that fail in it."""

    def reset(self, orders: Iterable[ResetOrder]) -> list[ResetResult[Any]]:
        """Reset envs."""
        return [self.reset_one(*order) for order in orders]

    def reset_one(
        self, index: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        """Reset one env."""
        self.begin(index, seed)
        if self.lost and index in self.lost:
            restart = self.rebuilt(index, WorkerError(self.lost[index]))
        else:
            try:
                return self.envs[index].reset(seed=seed, options=options)
            except Exception as error:
                restart = self.rebuilt(
                    index, env_error(error, "reset", *self.index_and_seed(index))
                )
        return self.with_restart(self._reset_again(index, restart, options), restart)

    def begin(self, index: int, seed: int | None) -> None:
        """Record that an env starts an episode."""
        if seed is not None:
            self.seeds[index] = seed
        self.finished[index] = False

    def step(
        self, actions: Iterable[Any], indices: Sequence[int] | None = None
    ) -> list[StepResult[Any]]:
        """Step all envs, or only those in `indices`, with autoreset."""
        if indices is None and not self.lost and self.autoreset != "next_step":
            return self._step_all(actions)
        step_one, chosen = self.step_one, range(len(self.envs)) if indices is None else indices
        return [step_one(index, action) for index, action in zip(chosen, actions, strict=True)]

    def _step_all(self, actions: Iterable[Any]) -> list[StepResult[Any]]:
        """Step all envs: `step_one` inlined, as its calls are a third of a step."""
        results: list[StepResult[Any]] = []
        for index, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            try:
                result = env.step(action)
            except Exception as error:
                result = self._recovered(
                    index, env_error(error, "step", *self.index_and_seed(index), action)
                )
            else:
                if result.done:
                    result = self._ended(index, result)
            results.append(result)
        return results

    def step_one(self, index: int, action: Any) -> StepResult[Any]:
        """Step one env, or reset it in `next_step` mode."""
        if self.finished[index] and self.autoreset == "next_step":
            return step_from_reset(self.reset_one(index))
        if self.lost and index in self.lost:
            return self._recovered(index, WorkerError(self.lost[index]))
        try:
            result = self.envs[index].step(action)
        except Exception as error:
            return self._recovered(
                index, env_error(error, "step", *self.index_and_seed(index), action)
            )
        return self._ended(index, result) if result.done else result

    def rebuilt(self, index: int, error: WorkerError) -> Restart:
        """Create a failed env anew, or raise its error if restarts are not enabled."""
        if self.on_error == "raise":
            raise error
        if self.lost.pop(index, None) is None:
            _close_quietly(self.envs[index])
            self.envs[index] = self._built(index)
        self.restarts[index] += 1
        self.finished[index] = False
        count = int(self.restarts[index])
        reason = error_text(error.__cause__) if error.__cause__ is not None else str(error)
        return Restart(reason, restart_seed(self.seeds[index], count), count)

    def settled(self, index: int, restart: Restart, first: ResetResult[Any]) -> StepResult[Any]:
        """Return the result of a restarted env, truncated at the last observation."""
        assert self.last_observation is not None, "set by whoever allows restarts"
        last = self.last_observation(index)
        lost = StepResult(last, 0.0, False, True, {RESTART: restart})
        if self.autoreset == "same_step":
            return autoreset_result(lost, last, self.with_restart(first, restart))
        self.finished[index] = True
        return lost

    def failed_again(self, index: int, error: Exception) -> WorkerError:
        """Return the error of an env that also fails in the reset after a restart."""
        return env_error(error, "the reset after a restart", *self.index_and_seed(index))

    def index_and_seed(self, index: int) -> tuple[int, int | None]:
        """Return the global index and the seed of an env."""
        return self.first_index + index, self.seeds[index]

    @staticmethod
    def with_restart(first: ResetResult[Any], restart: Restart) -> ResetResult[Any]:
        """Add the restart to the info of a reset."""
        return ResetResult(first.observation, {**first.info, RESTART: restart})

    def get_attr(self, name: str) -> list[Any]:
        """Return the attribute of each env."""
        return [env.get_attr(name) for env in self.envs]

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of every env, on the outermost wrapper that has it."""
        for env, value in zip(self.envs, values, strict=True):
            env.set_attr(name, value)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Call a method of each env and return the results."""
        return [env.get_attr(name)(*args, **kwargs) for env in self.envs]

    def state(self) -> list[dict[str, Any]]:
        """Return the state of each env."""
        return [
            {
                "env": env.state_dict(),
                "finished": self.finished[index],
                "seed": self.seeds[index],
                "restarts": int(self.restarts[index]),
            }
            for index, env in enumerate(self.envs)
        ]

    def load_state(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Load the state of each env; if one does not fit, change nothing."""
        before = [env.state_dict() for env in self.envs]
        loaded = 0
        try:
            for env, state in zip(self.envs, states, strict=True):
                env.load_state_dict(state["env"])
                loaded += 1
        except Exception as error:
            for env, state in zip(self.envs[:loaded], before, strict=False):
                env.load_state_dict(state)
            name = f"env {self.first_index + loaded}"
            raise StateError(f"{name} cannot load its state: {error_text(error)}") from error
        self.lost.clear()
        self.finished = [bool(state["finished"]) for state in states]
        self.seeds = [state["seed"] for state in states]
        self.restarts[:] = [state["restarts"] for state in states]

    def close(self) -> None:
        """Close every env, then raise the first error."""
        failures = []
        for index, env in enumerate(self.envs):
            try:
                env.close()
            except Exception as error:  # noqa: PERF203 - one env must not keep the others open
                failures.append(env_error(error, "close", *self.index_and_seed(index)))
        if failures:
            raise failures[0]

    def _ended(self, index: int, result: StepResult[Any]) -> StepResult[Any]:
        """Apply autoreset to a step that ended an episode."""
        if has_autoreset(result):
            return result
        if self.autoreset == "same_step":
            # The reset may overwrite the array of the last observation.
            final = self.observations.copied(result.observation)
            return autoreset_result(result, final, self.reset_one(index))
        self.finished[index] = True
        return result

    def _recovered(self, index: int, error: WorkerError) -> StepResult[Any]:
        restart = self.rebuilt(index, error)
        return self.settled(index, restart, self._reset_again(index, restart))

    def _reset_again(
        self, index: int, restart: Restart, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        try:
            return self.envs[index].reset(seed=restart.seed, options=options)
        except Exception as error:
            raise self.failed_again(index, error) from error

    def _build_all(self) -> None:
        try:
            for index in range(len(self.factories)):
                self.envs.append(self._built(index))
                self._check_new(index)
        except BaseException:
            for env in self.envs:
                _close_quietly(env)
            raise

    def _built(self, index: int) -> Env[Any, Any]:
        try:
            env = self.factories[index]()
        except Exception as error:
            raise env_error(error, "its factory", self.first_index + index, None) from error
        if not isinstance(env, Env):
            raise TypeError(
                f"factory of env {self.first_index + index} must return a sekai.Env, got {env!r}"
            )
        return env

    def _check_new(self, index: int) -> None:
        first, env = self.envs[0], self.envs[index]
        env_index = self.first_index + index
        if any(env is other for other in self.envs[:index]):
            raise ValueError(
                f"factory of env {env_index} returned an env that is already used; create a "
                f"new env in each call"
            )
        check_spaces(self.first_index, spaces_of(first), env_index, spaces_of(env))


def spaces_of(env: Env[Any, Any]) -> dict[str, Any]:
    """Return the two spaces of an env by name."""
    return {"observation_space": env.observation_space, "action_space": env.action_space}


def check_spaces(
    first_index: int, first: Mapping[str, Any], index: int, other: Mapping[str, Any]
) -> None:
    """Raise `SpaceError` unless two envs have the same spaces."""
    for name, space in first.items():
        if space is not other[name] and space != other[name]:
            raise SpaceError(
                f"all envs of a vector env must have the same spaces; {name} of env {first_index} "
                f"is {space!r}, of env {index} {other[name]!r}"
            )


def _close_quietly(env: Env[Any, Any]) -> None:
    """Close a failed env and ignore further errors."""
    with contextlib.suppress(Exception):
        env.close()


def checked_on_error(on_error: str) -> OnError:
    """Return the option, or raise `ValueError` if it is unknown."""
    for choice in get_args(OnError):
        if choice == on_error:
            return choice  # type: ignore[no-any-return]
    raise ValueError(f"on_error must be one of {get_args(OnError)}, got {on_error!r}")


def env_error(
    error: Exception, doing: str, env_index: int, seed: int | None, action: Any = None
) -> WorkerError:
    """Return the `WorkerError` for an exception of env `env_index` in `doing`."""
    worker_error = WorkerError(
        f"env {env_index} (seed {seed}) raised {error_text(error)} in {doing}",
        env_index=env_index,
        seed=seed,
        last_action=action,
        remote_traceback="".join(traceback.format_exception(error)),
    )
    worker_error.__cause__ = error
    return worker_error


def observation_error(
    batcher: Batcher, samples: Sequence[Any], indices: Sequence[int]
) -> WorkerError:
    """Return the `WorkerError` for an observation outside its space."""
    for index, sample in zip(indices, samples, strict=True):
        try:
            batcher.copied(sample)
        except SpaceError as error:  # noqa: PERF203 - only on the way to an error
            worker_error = WorkerError(
                f"env {index} returned an observation outside its space: {error}", env_index=index
            )
            worker_error.__cause__ = error
            return worker_error
    raise AssertionError("each observation fits by itself, so all of them do")


def error_text(error: BaseException) -> str:
    """Return type and message of an exception."""
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
