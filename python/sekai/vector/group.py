"""A few envs stepped one after another: all of a `SyncVecEnv`, or those of one worker process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sekai.core.autoreset import has_reset_itself, joined
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import SpaceError, StateError, WorkerError
from sekai.vector.autoreset import Autoreset, fresh
from sekai.vector.batching import Batcher
from sekai.vector.faults import RESTART, OnError, Restart, failure, reason_of
from sekai.vector.seeding import restart_seed

__all__ = ["EnvFactory", "EnvGroup", "ResetOrder"]

EnvFactory: TypeAlias = Callable[[], Env[Any, Any]]
ResetOrder: TypeAlias = "tuple[int, int | None, dict[str, Any] | None]"
"""The place of an env in its group, and the seed and options of its reset."""


class EnvGroup:
    """Builds, steps, resets and, where asked, rebuilds a row of envs.

    Every backend goes through the same few methods, so that autoreset, restarts and errors are
    the same whether the envs live here, in an event loop or in another process.
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
        """Envs that have been built anew after their process died, and how it died."""
        self._build_all()
        self.observations = Batcher(self.envs[0].observation_space)
        self.last_observation: Callable[[int], Any] | None = None
        """Where the observation before the current step is found, for envs that fail in it."""

    def reset(self, orders: Iterable[ResetOrder]) -> list[ResetResult[Any]]:
        """Begin an episode in each of the envs that are asked to."""
        return [self.reset_one(*order) for order in orders]

    def reset_one(
        self, place: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        """Begin an episode in one env."""
        self.begin(place, seed)
        if self.lost and place in self.lost:
            restart = self.rebuilt(place, WorkerError(self.lost[place]))
        else:
            try:
                return self.envs[place].reset(seed=seed, options=options)
            except Exception as error:
                restart = self.rebuilt(place, failure(error, "reset", *self.who(place)))
        return self.with_restart(self._reset_again(place, restart, options), restart)

    def begin(self, place: int, seed: int | None) -> None:
        """Note that an env begins an episode, with a seed or in its own stream."""
        if seed is not None:
            self.seeds[place] = seed
        self.finished[place] = False

    def step(
        self, actions: Iterable[Any], places: Sequence[int] | None = None
    ) -> list[StepResult[Any]]:
        """Let every env, or those at `places`, act once, with the autoreset that was asked for."""
        if places is None and not self.lost and self.autoreset != "next_step":
            return self._step_all(actions)
        step_one, chosen = self.step_one, range(len(self.envs)) if places is None else places
        return [step_one(place, action) for place, action in zip(chosen, actions, strict=True)]

    def _step_all(self, actions: Iterable[Any]) -> list[StepResult[Any]]:
        """Let every env act once: `step_one` without its calls, which are a third of a step."""
        results: list[StepResult[Any]] = []
        for place, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            try:
                result = env.step(action)
            except Exception as error:
                result = self._recovered(place, failure(error, "step", *self.who(place), action))
            else:
                if result.done:
                    result = self._ended(place, result)
            results.append(result)
        return results

    def step_one(self, place: int, action: Any) -> StepResult[Any]:
        """Let one env act, or begin its next episode."""
        if self.finished[place] and self.autoreset == "next_step":
            return fresh(self.reset_one(place))
        if self.lost and place in self.lost:
            return self._recovered(place, WorkerError(self.lost[place]))
        try:
            result = self.envs[place].step(action)
        except Exception as error:
            return self._recovered(place, failure(error, "step", *self.who(place), action))
        return self._ended(place, result) if result.done else result

    def rebuilt(self, place: int, error: WorkerError) -> Restart:
        """Build a failed env anew, or raise its error if restarts were not asked for."""
        if self.on_error == "raise":
            raise error
        if self.lost.pop(place, None) is None:
            _close_quietly(self.envs[place])
            self.envs[place] = self._built(place)
        self.restarts[place] += 1
        self.finished[place] = False
        count = int(self.restarts[place])
        reason = reason_of(error.__cause__) if error.__cause__ is not None else str(error)
        return Restart(reason, restart_seed(self.seeds[place], count), count)

    def settled(self, place: int, restart: Restart, first: ResetResult[Any]) -> StepResult[Any]:
        """The row of an env that came back: its episode was cut off at the last observation."""
        assert self.last_observation is not None, "set by whoever allows restarts"
        last = self.last_observation(place)
        lost = StepResult(last, 0.0, False, True, {RESTART: restart})
        if self.autoreset == "same_step":
            return joined(lost, last, self.with_restart(first, restart))
        self.finished[place] = True
        return lost

    def failed_again(self, place: int, error: Exception) -> WorkerError:
        """The error of an env that fails twice without an action between: it will not mend."""
        return failure(error, "the reset after a restart", *self.who(place))

    def who(self, place: int) -> tuple[int, int | None]:
        """The index and the seed of an env."""
        return self.first_index + place, self.seeds[place]

    @staticmethod
    def with_restart(first: ResetResult[Any], restart: Restart) -> ResetResult[Any]:
        """A reset whose info tells of the restart before it."""
        return ResetResult(first.observation, {**first.info, RESTART: restart})

    def get_attr(self, name: str) -> list[Any]:
        """The attribute of each env."""
        return [env.get_attr(name) for env in self.envs]

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set the attribute of each env, in the outermost layer that has it."""
        for env, value in zip(self.envs, values, strict=True):
            env.set_attr(name, value)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Call the method of each env."""
        return [env.get_attr(name)(*args, **kwargs) for env in self.envs]

    def state(self) -> list[dict[str, Any]]:
        """What is needed to continue each env from here."""
        return [
            {
                "env": env.state_dict(),
                "finished": self.finished[place],
                "seed": self.seeds[place],
                "restarts": int(self.restarts[place]),
            }
            for place, env in enumerate(self.envs)
        ]

    def load_state(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Continue each env from its state; a refused one leaves all envs as they were."""
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
            raise StateError(f"{name} refused its state: {reason_of(error)}") from error
        self.lost.clear()
        self.finished = [bool(state["finished"]) for state in states]
        self.seeds = [state["seed"] for state in states]
        self.restarts[:] = [state["restarts"] for state in states]

    def close(self) -> None:
        """Close every env, and raise the first error once all have been asked."""
        failures = []
        for place, env in enumerate(self.envs):
            try:
                env.close()
            except Exception as error:  # noqa: PERF203 - one env must not keep the others open
                failures.append(failure(error, "close", *self.who(place)))
        if failures:
            raise failures[0]

    def _ended(self, place: int, result: StepResult[Any]) -> StepResult[Any]:
        """What the vector shows of a step that ended an episode."""
        if has_reset_itself(result):
            return result
        if self.autoreset == "same_step":
            # The reset may write into the array that the env has shown.
            final = self.observations.copied(result.observation)
            return joined(result, final, self.reset_one(place))
        self.finished[place] = True
        return result

    def _recovered(self, place: int, error: WorkerError) -> StepResult[Any]:
        restart = self.rebuilt(place, error)
        return self.settled(place, restart, self._reset_again(place, restart))

    def _reset_again(
        self, place: int, restart: Restart, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        try:
            return self.envs[place].reset(seed=restart.seed, options=options)
        except Exception as error:
            raise self.failed_again(place, error) from error

    def _build_all(self) -> None:
        try:
            for place in range(len(self.factories)):
                self.envs.append(self._built(place))
                self._check_new(place)
        except BaseException:
            for env in self.envs:
                _close_quietly(env)
            raise

    def _built(self, place: int) -> Env[Any, Any]:
        try:
            env = self.factories[place]()
        except Exception as error:
            raise failure(error, "its factory", self.first_index + place, None) from error
        if not isinstance(env, Env):
            raise TypeError(
                f"the factory of env {self.first_index + place} must return a sekai.Env, "
                f"returned {env!r}"
            )
        return env

    def _check_new(self, place: int) -> None:
        first, env = self.envs[0], self.envs[place]
        index = self.first_index + place
        if any(env is other for other in self.envs[:place]):
            raise ValueError(f"the factory of env {index} returned an env that another one has")
        check_spaces(self.first_index, spaces_of(first), index, spaces_of(env))


def spaces_of(env: Env[Any, Any]) -> dict[str, Any]:
    """The two spaces of an env, by name."""
    return {"observation_space": env.observation_space, "action_space": env.action_space}


def check_spaces(
    first_index: int, first: Mapping[str, Any], index: int, found: Mapping[str, Any]
) -> None:
    """Raise `SpaceError` unless two envs have the same spaces."""
    for name, space in first.items():
        if space is not found[name] and space != found[name]:
            raise SpaceError(
                f"all envs of a vector share their spaces, but the {name} of env {first_index} "
                f"is {space!r} and that of env {index} is {found[name]!r}"
            )


def _close_quietly(env: Env[Any, Any]) -> None:
    """Close an env that has failed already: what it says now adds nothing."""
    with contextlib.suppress(Exception):
        env.close()
