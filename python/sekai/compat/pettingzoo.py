"""Adapters between multi-agent envs and PettingZoo's parallel envs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sekai.compat import advice
from sekai.compat.gymnasium.spaces import (
    owned,
    space_from_gymnasium,
    space_to_gymnasium,
    value_from_gymnasium,
    value_to_gymnasium,
)
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    import gymnasium

    from sekai.rendering import Renders

optional_import("pettingzoo", "pettingzoo", "sekai.compat.pettingzoo")

from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped]  # noqa: E402

__all__ = ["ExportedParallelEnv", "from_pettingzoo", "to_pettingzoo"]


class ExportedParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """`pettingzoo.ParallelEnv` around a `MultiAgentEnv`, which is its `sekai_env`.

    An agent that is done leaves `agents` at once, whether or not the inner env removes it.
    """

    def __init__(self, env: MultiAgentEnv, renderer: Renders | None = None) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"env must be a sekai MultiAgentEnv, got {env!r}{advice(env)}")
        self.sekai_env = env
        self._renderer = renderer
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces = {
            agent: space_to_gymnasium(env.observation_spaces[agent])
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: space_to_gymnasium(env.action_spaces[agent]) for agent in self.possible_agents
        }
        self.render_mode = None if renderer is None else "rgb_array"
        self.metadata = {
            "name": type(env.unwrapped).__name__,
            "is_parallelizable": True,
            **env.metadata,
            "render_modes": [] if renderer is None else ["rgb_array"],
        }

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode."""
        result = self.sekai_env.reset(seed=seed, options=self._known(options))
        self.agents = list(self.sekai_env.agents)
        return self._observed(result.observations), dict(result.info)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Any],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Step every live agent."""
        spaces = self.sekai_env.action_spaces
        sekai_actions = {
            agent: value_from_gymnasium(spaces[agent], action) for agent, action in actions.items()
        }
        result = self.sekai_env.step(sekai_actions)
        dones = result.dones
        self.agents = [agent for agent in self.sekai_env.agents if not dones.get(agent, False)]
        return (
            self._observed(result.observations),
            {agent: float(reward) for agent, reward in result.rewards.items()},
            {agent: bool(flag) for agent, flag in result.terminated.items()},
            {agent: bool(flag) for agent, flag in result.truncated.items()},
            dict(result.info),
        )

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """Observation space of `agent`, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """Action space of `agent`, the same object every time."""
        return self.action_spaces[agent]

    def render(self) -> Any:
        """Render the env; needs a renderer."""
        if self._renderer is None:
            raise RuntimeError("no renderer; pass one by to_pettingzoo(env, renderer=...)")
        return self._renderer.render(self.sekai_env)

    def close(self) -> None:
        """Close the env, and the renderer with it."""
        if self._renderer is not None:
            self._renderer.close()
        self.sekai_env.close()

    def _known(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """Options that the env accepts, if it lists them; PettingZoo expects no error."""
        names = self.sekai_env.metadata.get("reset_options")
        if options is None or names is None:
            return options
        return {name: value for name, value in options.items() if name in names}

    def _observed(self, observations: dict[str, Any]) -> dict[str, Any]:
        spaces = self.sekai_env.observation_spaces
        return {
            agent: value_to_gymnasium(spaces[agent], value) for agent, value in observations.items()
        }


def to_pettingzoo(env: MultiAgentEnv, *, renderer: Renders | None = None) -> ExportedParallelEnv:
    """Convert a multi-agent env to a `pettingzoo.ParallelEnv` with identical results.

    Args:
        env: a sekai multi-agent env.
        renderer: its renderer; with one, `render_mode` is `rgb_array`.
    """
    return ExportedParallelEnv(env, renderer)


class ImportedParallelEnv(MultiAgentEnv):
    """`MultiAgentEnv` around a `pettingzoo.ParallelEnv`, which is its `pettingzoo_env`.

    Entries under names that are not agents (PettingZoo allows a "common") are left out.
    `state_dict` is a deep copy of the inner env.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any]) -> None:
        if not hasattr(env, "possible_agents"):
            raise TypeError(f"{env} has no possible_agents, which a multi-agent env needs")
        self.pettingzoo_env = env
        self.possible_agents = list(env.possible_agents)
        invalid = [agent for agent in self.possible_agents if not isinstance(agent, str)]
        if invalid:
            raise TypeError(f"names of agents must be strings, got {invalid[0]!r}")
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
        """Metadata of the inner env."""
        metadata: dict[str, Any] = self.pettingzoo_env.metadata
        return metadata

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        """Start an episode."""
        observations, infos = self.pettingzoo_env.reset(seed=seed, options=options)
        self.agents = list(self.pettingzoo_env.agents)
        return MAResetResult(self._of_agents(owned(observations)), self._of_agents(infos))

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        """Step every live agent."""
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
        """Render the inner env in its render mode."""
        return self.pettingzoo_env.render()

    def close(self) -> None:
        """Close the inner env."""
        self.pettingzoo_env.close()

    def _of_agents(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        return {agent: values[agent] for agent in self.possible_agents if agent in values}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.pettingzoo_env})>"


def from_pettingzoo(env: ParallelEnv[Any, Any, Any]) -> ImportedParallelEnv:
    """Convert a parallel env of PettingZoo to a multi-agent env with identical results."""
    if isinstance(env, AECEnv):
        raise TypeError(
            f"env must be a pettingzoo.ParallelEnv, got the AEC env {env}; convert it with "
            "pettingzoo.utils.aec_to_parallel"
        )
    if not isinstance(env, ParallelEnv):
        raise TypeError(f"env must be a pettingzoo.ParallelEnv, got {env!r}{advice(env)}")
    return ImportedParallelEnv(env)
