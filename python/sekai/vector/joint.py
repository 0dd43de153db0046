"""A multi-agent env as an env with one joint agent, so that every vector env can run it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.core.layer import Layer
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.spaces import Box, Dict, MultiBinary
from sekai.vector.batching import Batcher

__all__ = ["JointEnv", "JointSpace"]


class JointSpace(Dict):
    """What the joint agent observes: all that the agents are given, and who of them is alive."""


class JointEnv(  # type: ignore[override] # a layer's metadata and spec follow from the env
    Layer, Env[dict[str, Any], dict[str, Any]]
):
    """Steps all agents of `env` as one, with a place for every agent that may ever take part.

    Observation: "observations", "rewards", "terminated", "truncated" and "alive", each by agent;
        an agent that took no part has zeros.
    Action: one for each possible agent; those of agents that are not alive are ignored.
    Reward: the sum over agents.
    Terminates: when no agent is left, and none of the last was truncated.
    Truncates: when no agent is left, and at least one of the last was truncated.
    """

    env: MultiAgentEnv

    def __init__(self, env: MultiAgentEnv) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"a MultiAgentEnv was wanted, found {env!r}")
        self.env = env
        self._agents = tuple(env.possible_agents)
        count = len(self._agents)
        self.observation_space = JointSpace(
            {
                "observations": Dict({name: env.observation_spaces[name] for name in self._agents}),
                "rewards": Box(-np.inf, np.inf, shape=(count,), dtype=np.float64),
                "terminated": MultiBinary(count),
                "truncated": MultiBinary(count),
                "alive": MultiBinary(count),
            }
        )
        self.action_space = Dict({name: env.action_spaces[name] for name in self._agents})
        self._absent = {
            name: (batcher := Batcher(space)).rows(batcher.allocate(1))[0]
            for name, space in env.observation_spaces.items()
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[dict[str, Any]]:
        """Begin an episode of all agents."""
        return self._map_reset(self.env.reset(seed=seed, options=options))

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[dict[str, Any]]:
        """Begin an episode of all agents, without blocking the event loop."""
        return self._map_reset(await self.env.async_reset(seed=seed, options=options))

    def step(self, action: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """Let every agent alive act once."""
        return self._map_step(self.env.step(self._living(action)))

    async def async_step(self, action: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """Let every agent alive act once, without blocking the event loop."""
        return self._map_step(await self.env.async_step(self._living(action)))

    def _living(self, action: dict[str, Any]) -> dict[str, Any]:
        return {name: action[name] for name in self.env.agents}

    def _map_reset(self, result: MAResetResult) -> ResetResult[dict[str, Any]]:
        observation = self._joint(result.observations, {}, {}, {})
        return ResetResult(observation, dict(result.info))

    def _map_step(self, result: MAStepResult) -> StepResult[dict[str, Any]]:
        observation = self._joint(
            result.observations, result.rewards, result.terminated, result.truncated
        )
        is_over = not self.env.agents or result.all_done
        was_cut = any(result.truncated.values())
        reward = float(sum(result.rewards.values()))
        return StepResult(
            observation, reward, is_over and not was_cut, is_over and was_cut, dict(result.info)
        )

    def _joint(
        self,
        observations: dict[str, Any],
        rewards: dict[str, float],
        terminated: dict[str, bool],
        truncated: dict[str, bool],
    ) -> dict[str, Any]:
        agents, alive = self._agents, set(self.env.agents)
        return {
            "observations": {
                name: observations[name] if name in observations else self._absent[name]
                for name in agents
            },
            "rewards": np.array([rewards.get(name, 0.0) for name in agents], np.float64),
            "terminated": np.array([terminated.get(name, False) for name in agents], np.int8),
            "truncated": np.array([truncated.get(name, False) for name in agents], np.int8),
            "alive": np.array([name in alive for name in agents], np.int8),
        }
