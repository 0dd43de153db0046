"""The contract of an environment in which several agents act at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekai.core.layer import Layer
from sekai.core.result import MAResetResult, MAStepResult
from sekai.core.twins import complete_twins
from sekai.core.world import World

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["MultiAgentEnv", "MultiAgentWrapper"]


class MultiAgentEnv(World):
    """A world that several named agents act in, each with spaces of its own.

    `possible_agents` names all that may ever take part, `agents` those alive now: only they are
    given observations and only they must act. As with `Env`, either the sync or the async
    methods are written and the others follow.
    """

    possible_agents: list[str]
    agents: list[str]
    observation_spaces: Mapping[str, Space[Any]]
    action_spaces: Mapping[str, Space[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_twins(cls, ("reset", "step"), MultiAgentEnv)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode. Call `self._set_rng(seed)` inside."""
        raise NotImplementedError

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent alive act once."""
        raise NotImplementedError

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode without blocking the event loop."""
        raise NotImplementedError

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent alive act once without blocking the event loop."""
        raise NotImplementedError

    @property
    def num_agents(self) -> int:
        """How many agents are alive."""
        return len(self.agents)

    @property
    def unwrapped(self) -> MultiAgentEnv:
        """The env underneath all wrappers."""
        return self


class MultiAgentWrapper(Layer, MultiAgentEnv):  # type: ignore[override] # as in `Wrapper`
    """A layer around a multi-agent env, transparent unless a subclass says otherwise.

    As with `Wrapper`, what changes is stated once, in the hooks, for the sync and async paths.
    """

    env: MultiAgentEnv

    def __init__(self, env: MultiAgentEnv) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"{type(self).__name__} wraps a MultiAgentEnv, was given {env!r}")
        self.env = env

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent alive act once, through this layer."""
        return self._map_step(self.env.step(self._map_actions(actions)))

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent alive act once, without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._map_actions(actions)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode, through this layer."""
        return self._map_reset(self.env.reset(seed=seed, options=options))

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode, through this layer, without blocking the event loop."""
        return self._map_reset(await self.env.async_reset(seed=seed, options=options))

    def _map_actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the inner env is given; may refuse the actions before anything moves."""
        return actions

    def _map_step(self, result: MAStepResult) -> MAStepResult:
        """What this layer makes of a step."""
        return result

    def _map_reset(self, result: MAResetResult) -> MAResetResult:
        """What this layer makes of a reset."""
        return result

    @property
    def possible_agents(self) -> list[str]:  # type: ignore[override]
        """All that may ever take part."""
        return self.env.possible_agents

    @property
    def agents(self) -> list[str]:
        """Those alive now."""
        return self.env.agents

    @agents.setter
    def agents(self, names: list[str]) -> None:
        self.env.agents = names

    @property
    def observation_spaces(self) -> Mapping[str, Space[Any]]:  # type: ignore[override]
        """The spaces of observations, by agent."""
        return self.env.observation_spaces

    @property
    def action_spaces(self) -> Mapping[str, Space[Any]]:  # type: ignore[override]
        """The spaces of actions, by agent."""
        return self.env.action_spaces
