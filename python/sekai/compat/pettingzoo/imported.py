"""A parallel env of PettingZoo as one of our multi-agent envs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped]

from sekai.compat.gymnasium.spaces import space_from_gymnasium
from sekai.compat.gymnasium.values import owned
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult

__all__ = ["ImportedParallelEnv", "from_pettingzoo"]


class ImportedParallelEnv(MultiAgentEnv):
    """A `MultiAgentEnv` around a `pettingzoo.ParallelEnv`, which is its `pettingzoo_env`.

    What the env tells under names that are no agents (PettingZoo allows a "common") is left out.
    `state_dict` takes a deep copy of the env inside.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any]) -> None:
        if not hasattr(env, "possible_agents"):
            raise TypeError(f"{env} does not tell its possible_agents, so nobody can be prepared")
        self.pettingzoo_env = env
        self.possible_agents = list(env.possible_agents)
        strange = [agent for agent in self.possible_agents if not isinstance(agent, str)]
        if strange:
            raise TypeError(f"agents must be named by strings, found {strange[0]!r}")
        self.agents = []
        self.observation_spaces = {
            agent: space_from_gymnasium(env.observation_space(agent))
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: space_from_gymnasium(env.action_space(agent)) for agent in self.possible_agents
        }

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The metadata of the env inside."""
        metadata: dict[str, Any] = self.pettingzoo_env.metadata
        return metadata

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Begin an episode."""
        observations, infos = self.pettingzoo_env.reset(seed=seed, options=options)
        self.agents = list(self.pettingzoo_env.agents)
        return MAResetResult(self._of_agents(owned(observations)), self._of_agents(infos))

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Let every agent alive act once."""
        results = self.pettingzoo_env.step(dict(actions))
        observations, rewards, terminated, truncated, infos = map(self._of_agents, results)
        self.agents = list(self.pettingzoo_env.agents)
        return MAStepResult(
            owned(observations),
            {agent: float(reward) for agent, reward in rewards.items()},
            {agent: bool(flag) for agent, flag in terminated.items()},
            {agent: bool(flag) for agent, flag in truncated.items()},
            infos,
        )

    def render(self) -> Any:
        """What the env inside draws, in the mode it was made with."""
        return self.pettingzoo_env.render()

    def close(self) -> None:
        """Close the env inside."""
        self.pettingzoo_env.close()

    def _of_agents(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        return {agent: values[agent] for agent in self.possible_agents if agent in values}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.pettingzoo_env})>"


def from_pettingzoo(env: ParallelEnv[Any, Any, Any]) -> ImportedParallelEnv:
    """A parallel env of PettingZoo as one of ours: the same numbers from the same seeds."""
    if isinstance(env, AECEnv):
        raise TypeError(
            f"a pettingzoo.ParallelEnv was wanted, found the AEC env {env}: convert it with "
            f"pettingzoo.utils.aec_to_parallel"
        )
    if not isinstance(env, ParallelEnv):
        raise TypeError(f"a pettingzoo.ParallelEnv was wanted, found {env!r}")
    return ImportedParallelEnv(env)
