"""Multi-agent counterparts of `TimeLimit`, `OrderEnforcing` and `ValidateAction`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.multi_agent import MultiAgentEnv, MultiAgentWrapper
from sekai.core.result import MAResetResult, MAStepResult
from sekai.error import InvalidActionError
from sekai.wrappers.order_enforcing import CallOrder
from sekai.wrappers.time_limit import checked_limit


class MultiAgentTimeLimit(MultiAgentWrapper):
    """Wrapper that truncates the episode of every agent after `max_episode_steps` steps."""

    def __init__(self, env: MultiAgentEnv, max_episode_steps: int) -> None:
        super().__init__(env)
        self.max_episode_steps = checked_limit(max_episode_steps)
        self._elapsed_steps = 0

    def _map_step(self, result: MAStepResult) -> MAStepResult:
        self._elapsed_steps += 1
        if self._elapsed_steps < self.max_episode_steps:
            return result
        self.env.agents = []
        return MAStepResult(
            result.observations,
            result.rewards,
            result.terminated,
            dict.fromkeys(result.observations, True),
            result.info,
        )

    def _map_reset(self, result: MAResetResult) -> MAResetResult:
        self._elapsed_steps = 0
        return result


class MultiAgentOrderEnforcing(MultiAgentWrapper):
    """Wrapper that raises `ResetRequired` or `ClosedError` for calls in the wrong order."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)
        self._order = CallOrder()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode, or raise `ClosedError` if the env is closed."""
        self._order.check_open()
        return super().reset(seed=seed, options=options)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode without blocking the event loop."""
        self._order.check_open()
        return await super().async_reset(seed=seed, options=options)

    def close(self) -> None:
        """Close the env; a second call does nothing."""
        if self._order.close():
            super().close()

    def _map_actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._order.running:
            raise self._order.refusal()
        return actions

    def _map_step(self, result: MAStepResult) -> MAStepResult:
        if result.all_done:
            self._order.running = False
        return result

    def _map_reset(self, result: MAResetResult) -> MAResetResult:
        self._order.begin()
        return result


class MultiAgentValidateAction(MultiAgentWrapper):
    """Wrapper that raises `InvalidActionError` unless every live agent's action is valid."""

    def _map_actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        alive = set(self.env.agents)
        if actions.keys() != alive:
            raise InvalidActionError(
                f"expected actions of the agents {sorted(alive)}, got {sorted(actions)}"
            )
        for agent, action in actions.items():
            space = self.env.action_spaces[agent]
            reason = space.mismatch(action)
            if reason is not None:
                raise InvalidActionError(f"action of agent {agent!r} is not in {space}: {reason}")
        return actions
