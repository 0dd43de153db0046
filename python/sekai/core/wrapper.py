"""Layers around an environment that change what goes in or what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sekai.core import state
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.error import StateError

if TYPE_CHECKING:
    from typing_extensions import Self

    from sekai.registry.spec import EnvSpec
    from sekai.spaces import Space

__all__ = ["ActionWrapper", "ObservationWrapper", "RewardWrapper", "Wrapper"]

InnerObs = TypeVar("InnerObs")
InnerAct = TypeVar("InnerAct")


class Wrapper(Env[ObsType, ActType], Generic[ObsType, ActType, InnerObs, InnerAct]):
    """A layer around `env`, transparent unless a subclass says otherwise.

    A subclass states what it changes once, in the hooks `_map_action`, `_map_step` and
    `_map_reset`; both the sync and the async path go through them. A subclass that must steer
    the inner env itself overrides `step` (its async twin then follows) or both twins.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("env", "_arguments")
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _observation_space: Space[ObsType] | None = None
    _action_space: Space[ActType] | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note how the layer is built, so that a spec can build it again."""
        self = super().__new__(cls)
        self._arguments = (args[1:], {k: v for k, v in kwargs.items() if k != "env"})
        return self

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
        return self._map_reset(self.env.reset(seed=seed, options=options), seed)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode, through this layer, without blocking the event loop."""
        return self._map_reset(await self.env.async_reset(seed=seed, options=options), seed)

    def close(self) -> None:
        """Release what the env holds."""
        self.env.close()

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
    def observation_space(self) -> Space[ObsType]:  # type: ignore[override]
        """The space of observations that leave this layer."""
        own = self._observation_space
        return own if own is not None else self.env.observation_space  # type: ignore[return-value]

    @observation_space.setter
    def observation_space(self, space: Space[ObsType]) -> None:
        self._observation_space = space

    @property
    def action_space(self) -> Space[ActType]:  # type: ignore[override]
        """The space of actions that enter this layer."""
        own = self._action_space
        return own if own is not None else self.env.action_space  # type: ignore[return-value]

    @action_space.setter
    def action_space(self, space: Space[ActType]) -> None:
        self._action_space = space

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The metadata of the wrapped env."""
        return self.env.metadata

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """How to build this stack, layer by layer, if `sekai.make` built the env inside."""
        inner = self.env.spec
        return inner.wrapped_by(self) if inner is not None else None

    @property
    def unwrapped(self) -> Env[Any, Any]:
        """The env underneath all wrappers."""
        return self.env.unwrapped

    def __iter__(self) -> Iterator[Env[Any, Any]]:
        """The layers of the stack, from this one inwards."""
        yield self
        yield from self.env

    def __getattr__(self, name: str) -> Any:
        """Look an attribute up in the layers below. Private names stay private to their layer."""
        if name.startswith("_") or name == "env":
            raise AttributeError(
                f"{type(self).__name__!r} has no attribute {name!r}; private attributes of an "
                f"inner layer are reached through `.env` or `.unwrapped`"
            )
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.env!r})>"

    def state_dict(self) -> dict[str, Any]:
        """The state of this layer and of everything below it."""
        return {"layer": state.capture(self, self._excluded()), "env": self.env.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        if state_dict.keys() != {"layer", "env"}:
            raise StateError(
                f"a state of the layer {type(self).__name__} has the keys 'layer' and 'env', "
                f"found {sorted(state_dict)}"
            )
        before = state.capture(self, self._excluded())
        state.restore(self, state_dict["layer"], self._excluded())
        try:
            self.env.load_state_dict(state_dict["env"])
        except Exception:
            state.restore(self, before, self._excluded())
            raise


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
