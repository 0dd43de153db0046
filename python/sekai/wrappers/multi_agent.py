"""Call order and time limits for environments with several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.multi_agent import MultiAgentEnv, MultiAgentWrapper
from sekai.core.result import MAResetResult, MAStepResult
from sekai.error import InvalidActionError
from sekai.wrappers.order_enforcing import CallOrder
from sekai.wrappers.time_limit import checked_limit

__all__ = ["MultiAgentOrderEnforcing", "MultiAgentTimeLimit", "MultiAgentValidateAction"]


class MultiAgentTimeLimit(MultiAgentWrapper):
    """Truncates the episode of every agent after `max_episode_steps` steps."""

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
    """Raises `ResetRequired` or `ClosedError` for calls that come in the wrong order."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)
        self._order = CallOrder()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode, unless the env is closed."""
        self._order.check_open()
        return super().reset(seed=seed, options=options)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode, unless the env is closed."""
        self._order.check_open()
        return await super().async_reset(seed=seed, options=options)

    def close(self) -> None:
        """Release what the env holds; a second call does nothing."""
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
    """Raises `InvalidActionError` unless every agent alive acts within its action space."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)

    def _map_actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        alive = set(self.env.agents)
        if actions.keys() != alive:
            raise InvalidActionError(
                f"actions of the agents {sorted(alive)} were wanted, found {sorted(actions)}"
            )
        for agent, action in actions.items():
            space = self.env.action_spaces[agent]
            reason = space.mismatch(action)
            if reason is not None:
                raise InvalidActionError(f"the action of {agent!r} does not fit {space}: {reason}")
        return actions
