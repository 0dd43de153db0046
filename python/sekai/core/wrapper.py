"""Layers around an environment that change what goes in or what comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sekai.core.env import ActType, Env, ObsType
from sekai.core.exhaustion import is_exhausted, shown_by
from sekai.core.layer import Layer
from sekai.core.result import ResetResult, StepResult

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["ActionWrapper", "ObservationWrapper", "RewardWrapper", "Wrapper"]

InnerObs = TypeVar("InnerObs")
InnerAct = TypeVar("InnerAct")


class Wrapper(  # type: ignore[override] # a layer's metadata and spec follow from the env
    Layer, Env[ObsType, ActType], Generic[ObsType, ActType, InnerObs, InnerAct]
):
    """A layer around `env`, transparent unless a subclass says otherwise.

    A subclass states what it changes once, in the hooks `_map_action`, `_map_step` and
    `_map_reset`; both the sync and the async path go through them. A subclass that must steer
    the inner env itself overrides `step` (its async twin then follows) or both twins.
    """

    env: Env[InnerObs, InnerAct]
    _observation_space: Space[ObsType] | None = None
    _action_space: Space[ActType] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _leave_out_idle_hooks(cls)

    def __init__(self, env: Env[InnerObs, InnerAct]) -> None:
        if not isinstance(env, Env):
            raise TypeError(f"{type(self).__name__} wraps a sekai.Env, was given {env!r}")
        self.env = env

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Act once, through this layer."""
        return self._map_step(self.env.step(self._map_action(action)))

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Act once, through this layer, without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._map_action(action)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode, through this layer."""
        result = self.env.reset(seed=seed, options=options)
        return shown_by(self, result) if is_exhausted(result) else self._map_reset(result, seed)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode, through this layer, without blocking the event loop."""
        result = await self.env.async_reset(seed=seed, options=options)
        return shown_by(self, result) if is_exhausted(result) else self._map_reset(result, seed)

    def _map_action(self, action: ActType) -> InnerAct:
        """What the inner env is given for `action`; may refuse it before anything moves."""
        return action  # type: ignore[return-value]

    def _map_step(self, result: StepResult[InnerObs]) -> StepResult[ObsType]:
        """What this layer makes of a step."""
        return result  # type: ignore[return-value]

    def _map_reset(self, result: ResetResult[InnerObs], seed: int | None) -> ResetResult[ObsType]:
        """What this layer makes of a reset that was asked for with `seed`."""
        return result  # type: ignore[return-value]

    @property
    def observation_space(self) -> Space[ObsType]:
        """The space of observations that leave this layer."""
        own = self._observation_space
        return own if own is not None else self.env.observation_space  # type: ignore[return-value]

    @observation_space.setter
    def observation_space(self, space: Space[ObsType]) -> None:
        self._observation_space = space

    @property
    def action_space(self) -> Space[ActType]:
        """The space of actions that enter this layer."""
        own = self._action_space
        return own if own is not None else self.env.action_space  # type: ignore[return-value]

    @action_space.setter
    def action_space(self, space: Space[ActType]) -> None:
        self._action_space = space


def _leave_out_idle_hooks(cls: type[Wrapper[Any, Any, Any, Any]]) -> None:
    """Spare a class the calls of hooks it does not define: they are half of a layer's time."""
    if cls.step not in (Wrapper.step, *_STEPS.values()):
        return
    maps_action = cls._map_action is not Wrapper._map_action
    maps_result = cls._map_step is not Wrapper._map_step
    cls.step = _STEPS.get((maps_action, maps_result), Wrapper.step)  # type: ignore[method-assign]
    # Beside it, so that a class further down sees both twins defined in one place.
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
    """Changes observations: write `observation`."""

    def observation(self, obs: InnerObs) -> ObsType:
        """What the agent sees instead of `obs`."""
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
    """Changes rewards: write `reward`."""

    def reward(self, reward: float) -> float:
        """What the agent earns instead of `reward`."""
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
    """Changes actions: write `action`, and `reverse_action` where it can be undone."""

    def action(self, action: ActType) -> InnerAct:
        """What the env is given instead of `action`."""
        raise NotImplementedError(f"{type(self).__name__} must define action(action)")

    def reverse_action(self, action: InnerAct) -> ActType:
        """The action that `action()` maps to this one."""
        raise NotImplementedError(f"{type(self).__name__} cannot be undone: no reverse_action")

    def _map_action(self, action: ActType) -> InnerAct:
        return self.action(action)
