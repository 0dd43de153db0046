"""Wrappers: environments around another one that change observations, actions or rewards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from sekai.core import state
from sekai.core.autoreset import exhausted_result, is_exhausted
from sekai.core.base import Stateful
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import StateError

if TYPE_CHECKING:
    from typing_extensions import Self

    from sekai.registry.spec import EnvSpec
    from sekai.spaces import Space

__all__ = ["ActionWrapper", "ObservationWrapper", "RewardWrapper", "Wrapper"]


class BaseWrapper(Stateful):
    """Base class of all wrappers: forwards to `env` and records its constructor arguments."""

    state_excludes: ClassVar[tuple[str, ...]] = ("env", "_arguments")
    env: Any
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Record the constructor arguments, from which a spec rebuilds the wrapper."""
        self = super().__new__(cls)
        self._arguments = (args[1:], {name: v for name, v in kwargs.items() if name != "env"})
        return self

    def close(self) -> None:
        """Close the wrapped env."""
        self.env.close()

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the wrapped env."""
        metadata: dict[str, Any] = self.env.metadata
        return metadata

    @property
    def spec(self) -> EnvSpec | None:
        """Spec of the whole stack, or None if `sekai.make` did not create the env."""
        inner: EnvSpec | None = self.env.spec
        return inner.wrapped_by(self) if inner is not None else None

    @property
    def unwrapped(self) -> Any:
        """Base env inside all wrappers."""
        return self.env.unwrapped

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the wrapped env: one seed determines the whole stack."""
        generator: np.random.Generator = self.env.rng
        return generator

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the wrappers and the env, outermost first."""
        yield self
        yield from self.env

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.env!r})>"

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this wrapper and of everything inside it."""
        return {"layer": state.capture(self, self._excluded()), "env": self.env.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state dict; raise `StateError` and change nothing if it does not fit."""
        if state_dict.keys() != {"layer", "env"}:
            raise StateError(
                f"expected a state of {type(self).__name__} with the keys 'layer' and 'env', "
                f"got {sorted(map(str, state_dict))}"
            )
        before = state.capture(self, self._excluded())
        state.restore(self, state_dict["layer"], self._excluded())
        try:
            self.env.load_state_dict(state_dict["env"])
        except Exception:
            state.restore(self, before, self._excluded())
            raise


InnerObs = TypeVar("InnerObs")
InnerAct = TypeVar("InnerAct")


class Wrapper(  # type: ignore[override] # a layer's metadata and spec follow from the env
    BaseWrapper, Env[ObsType, ActType], Generic[ObsType, ActType, InnerObs, InnerAct]
):
    """Wrapper of a single-agent env that changes nothing by default.

    Subclasses override the hooks `_map_action`, `_map_step` and `_map_reset`, which serve both the
    sync and the async methods. A subclass that controls the inner env itself overrides `step` (the
    async method is then derived from it) or both methods.
    """

    env: Env[InnerObs, InnerAct]
    _observation_space: Space[ObsType] | None = None
    _action_space: Space[ActType] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _leave_out_idle_hooks(cls)

    def __init__(self, env: Env[InnerObs, InnerAct]) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"{type(self).__name__} expected a sekai.Env, got {env!r}")
        self.env = env

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action."""
        return self._map_step(self.env.step(self._map_action(action)))

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._map_action(action)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode."""
        result = self.env.reset(seed=seed, options=options)
        return (
            exhausted_result(self, result)
            if is_exhausted(result)
            else self._map_reset(result, seed)
        )

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode without blocking the event loop."""
        result = await self.env.async_reset(seed=seed, options=options)
        return (
            exhausted_result(self, result)
            if is_exhausted(result)
            else self._map_reset(result, seed)
        )

    def _map_action(self, action: ActType) -> InnerAct:
        """Return the action for the inner env, or raise before it is stepped."""
        return action  # type: ignore[return-value]

    def _map_step(self, result: StepResult[InnerObs]) -> StepResult[ObsType]:
        """Return the step result of this wrapper."""
        return result  # type: ignore[return-value]

    def _map_reset(self, result: ResetResult[InnerObs], seed: int | None) -> ResetResult[ObsType]:
        """Return the reset result of this wrapper."""
        return result  # type: ignore[return-value]

    @property
    def observation_space(self) -> Space[ObsType]:
        """Space of the observations that this wrapper returns."""
        own = self._observation_space
        return own if own is not None else self.env.observation_space  # type: ignore[return-value]

    @observation_space.setter
    def observation_space(self, space: Space[ObsType]) -> None:
        self._observation_space = space

    @property
    def action_space(self) -> Space[ActType]:
        """Space of the actions that this wrapper accepts."""
        own = self._action_space
        return own if own is not None else self.env.action_space  # type: ignore[return-value]

    @action_space.setter
    def action_space(self, space: Space[ActType]) -> None:
        self._action_space = space


def _leave_out_idle_hooks(cls: type[Wrapper[Any, Any, Any, Any]]) -> None:
    """Skip the calls of hooks that a class does not override: half of a wrapper's overhead."""
    if cls.step not in (Wrapper.step, *_STEPS.values()):
        return
    maps_action = cls._map_action is not Wrapper._map_action
    maps_result = cls._map_step is not Wrapper._map_step
    cls.step = _STEPS.get((maps_action, maps_result), Wrapper.step)  # type: ignore[method-assign]
    # In the same class, so that a subclass finds both methods defined together.
    cls.async_step = Wrapper.async_step  # type: ignore[method-assign]


def _step_mapping_nothing(self: Any, action: Any) -> Any:
    return self.env.step(action)


def _step_mapping_actions(self: Any, action: Any) -> Any:
    return self.env.step(self._map_action(action))


def _step_mapping_results(self: Any, action: Any) -> Any:
    return self._map_step(self.env.step(action))


_STEPS = {
    (False, False): _step_mapping_nothing,
    (True, False): _step_mapping_actions,
    (False, True): _step_mapping_results,
}


class ObservationWrapper(Wrapper[ObsType, ActType, InnerObs, ActType]):
    """Wrapper that transforms observations; define `observation`."""

    def observation(self, obs: InnerObs) -> ObsType:
        """Return the transformed observation."""
        raise NotImplementedError(f"{type(self).__name__} must define observation(obs)")

    def _map_step(self, result: StepResult[InnerObs]) -> StepResult[ObsType]:
        return StepResult(
            self.observation(result.observation),
            result.reward,
            result.terminated,
            result.truncated,
            result.info,
        )

    def _map_reset(self, result: ResetResult[InnerObs], seed: int | None) -> ResetResult[ObsType]:
        return ResetResult(self.observation(result.observation), result.info)


class RewardWrapper(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that transforms rewards; define `reward`."""

    def reward(self, reward: float) -> float:
        """Return the transformed reward."""
        raise NotImplementedError(f"{type(self).__name__} must define reward(reward)")

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        return StepResult(
            result.observation,
            self.reward(result.reward),
            result.terminated,
            result.truncated,
            result.info,
        )


class ActionWrapper(Wrapper[ObsType, ActType, ObsType, InnerAct]):
    """Wrapper that transforms actions; define `action`, and optionally `reverse_action`."""

    def action(self, action: ActType) -> InnerAct:
        """Return the action for the inner env."""
        raise NotImplementedError(f"{type(self).__name__} must define action(action)")

    def reverse_action(self, action: InnerAct) -> ActType:
        """Return the action that `action()` maps to this one."""
        raise NotImplementedError(
            f"{type(self).__name__} has no inverse: define reverse_action(action)"
        )

    def _map_action(self, action: ActType) -> InnerAct:
        return self.action(action)
