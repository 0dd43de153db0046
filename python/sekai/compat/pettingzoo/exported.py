"""One of our multi-agent envs as PettingZoo sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from sekai.compat.gymnasium.spaces import space_to_gymnasium
from sekai.compat.gymnasium.values import value_from_gymnasium, value_to_gymnasium
from sekai.core.multi_agent import MultiAgentEnv

if TYPE_CHECKING:
    import gymnasium

    from sekai.rendering import Renders

__all__ = ["ExportedParallelEnv", "to_pettingzoo"]


class ExportedParallelEnv(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """A `pettingzoo.ParallelEnv` around a `MultiAgentEnv`, which is its `sekai_env`.

    An agent that is out leaves `agents` at once, whether or not the env inside removes it.
    """

    def __init__(self, env: MultiAgentEnv, renderer: Renders | None = None) -> None:
        if not isinstance(env, MultiAgentEnv):
            raise TypeError(f"a sekai MultiAgentEnv was wanted, found {env!r}")
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
        """Begin an episode."""
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
        """Let every agent alive act once."""
        spaces = self.sekai_env.action_spaces
        ours = {
            agent: value_from_gymnasium(spaces[agent], action) for agent, action in actions.items()
        }
        result = self.sekai_env.step(ours)
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
        """The observation space of `agent`, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """The action space of `agent`, the same object every time."""
        return self.action_spaces[agent]

    def render(self) -> Any:
        """A picture of the env, if a renderer was given."""
        if self._renderer is None:
            raise RuntimeError("there is nothing to draw with: to_pettingzoo(env, renderer=...)")
        return self._renderer.render(self.sekai_env)

    def close(self) -> None:
        """Close the env, and the renderer with it."""
        if self._renderer is not None:
            self._renderer.close()
        self.sekai_env.close()

    def _known(self, options: dict[str, Any] | None) -> dict[str, Any] | None:
        """What an env takes of the options, if it says so: callers here expect no refusal."""
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
    """`env` as a `pettingzoo.ParallelEnv`: the same numbers from the same seeds and actions.

    Args:
        env: one of our multi-agent envs.
        renderer: what draws it; with one, `render_mode` is `rgb_array`.
    """
    return ExportedParallelEnv(env, renderer)
