"""Multi-agent environment API: several named agents act in each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekai.core.base import BaseEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.core.sync_async import derive_missing_methods
from sekai.core.wrapper import BaseWrapper

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["MultiAgentEnv", "MultiAgentWrapper"]


class MultiAgentEnv(BaseEnv):
    """Multi-agent environment, with an observation and an action space per agent.

    `possible_agents` lists every agent; `agents` lists those alive now, which receive observations
    and must act. As with `Env`, define either the sync or the async methods.
    """

    possible_agents: list[str]
    agents: list[str]
    observation_spaces: Mapping[str, Space[Any]]
    action_spaces: Mapping[str, Space[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        derive_missing_methods(cls, ("reset", "step"), MultiAgentEnv)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode and return the first observation of every agent.

        Implementations call `self._set_rng(seed)` first.
        """
        raise NotImplementedError

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Apply one action per live agent."""
        raise NotImplementedError

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode without blocking the event loop."""
        raise NotImplementedError

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Apply one action per live agent without blocking the event loop."""
        raise NotImplementedError

    @property
    def num_agents(self) -> int:
        """Number of live agents."""
        return len(self.agents)

    @property
    def unwrapped(self) -> MultiAgentEnv:
        """Base env inside all wrappers."""
        return self


class MultiAgentWrapper(BaseWrapper, MultiAgentEnv):  # type: ignore[override] # as in `Wrapper`
    """Wrapper of a multi-agent env that changes nothing by default.

    Subclasses override the hooks `_map_actions`, `_map_step` and `_map_reset`, which serve both the
    sync and the async methods.
    """

    env: MultiAgentEnv

    def __init__(self, env: MultiAgentEnv) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"{type(self).__name__} expected a MultiAgentEnv, got {env!r}")
        self.env = env

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Apply one action per live agent."""
        return self._map_step(self.env.step(self._map_actions(actions)))

    async def async_step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Apply one action per live agent without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._map_actions(actions)))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode."""
        return self._map_reset(self.env.reset(seed=seed, options=options))

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode without blocking the event loop."""
        return self._map_reset(await self.env.async_reset(seed=seed, options=options))

    def _map_actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the actions for the inner env, or raise before it is stepped."""
        return actions

    def _map_step(self, result: MAStepResult) -> MAStepResult:
        """Return the step result of this wrapper."""
        return result

    def _map_reset(self, result: MAResetResult) -> MAResetResult:
        """Return the reset result of this wrapper."""
        return result

    @property
    def possible_agents(self) -> list[str]:  # type: ignore[override]
        """Names of all agents."""
        return self.env.possible_agents

    @property
    def agents(self) -> list[str]:
        """Names of live agents."""
        return self.env.agents

    @agents.setter
    def agents(self, names: list[str]) -> None:
        self.env.agents = names

    @property
    def observation_spaces(self) -> Mapping[str, Space[Any]]:  # type: ignore[override]
        """Observation spaces by agent."""
        return self.env.observation_spaces

    @property
    def action_spaces(self) -> Mapping[str, Space[Any]]:  # type: ignore[override]
        """Action spaces by agent."""
        return self.env.action_spaces
