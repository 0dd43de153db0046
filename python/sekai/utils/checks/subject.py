"""An env under examination: one way to call it, whether one agent acts inside or several.

An env of one agent is seen as an env whose only agent has no name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.utils.checks.layers import LearnedLayers
from sekai.utils.checks.report import CheckStopped, described

__all__ = ["AgentsSubject", "Subject", "subject_of"]

Part = dict[str, Any]
"""What one agent was given: observation, reward, terminated, truncated and info, as present."""

FIELDS = {
    "observation": "observations",
    "reward": "rewards",
    "terminated": "terminated",
    "truncated": "truncated",
    "info": "info",
}
"""The fields of a result of one agent, and of a result of several."""


class Subject:
    """An env of one agent."""

    reset_type: type = ResetResult
    step_type: type = StepResult

    def __init__(self, env: Any) -> None:
        self.env = env
        self.layers = LearnedLayers(env)

    def reset(self, **arguments: Any) -> Any:
        """`env.reset(**arguments)`; what it raises, and a result of a wrong type, end the check."""
        call = _call("reset", arguments)
        try:
            result = self.env.reset(**arguments)
        except Exception as error:
            raise CheckStopped(f"{call} raised {described(error)}") from error
        return _of_type(result, self.reset_type, call)

    def step(self, action: Any) -> Any:
        """`env.step(action)`, likewise."""
        try:
            result = self.env.step(action)
        except Exception as error:
            raise CheckStopped(f"step() raised {described(error)}") from error
        return _of_type(result, self.step_type, "step()")

    async def async_reset(self, **arguments: Any) -> Any:
        """`env.async_reset(**arguments)`, likewise."""
        call = _call("async_reset", arguments)
        try:
            result = await self.env.async_reset(**arguments)
        except Exception as error:
            raise CheckStopped(f"{call} raised {described(error)}") from error
        return _of_type(result, self.reset_type, call)

    async def async_step(self, action: Any) -> Any:
        """`env.async_step(action)`, likewise."""
        try:
            result = await self.env.async_step(action)
        except Exception as error:
            raise CheckStopped(f"async_step() raised {described(error)}") from error
        return _of_type(result, self.step_type, "async_step()")

    def observation_spaces(self) -> Mapping[str, Any]:
        """The observation space of each agent."""
        return {"": self.env.observation_space}

    def action_spaces(self) -> Mapping[str, Any]:
        """The action space of each agent."""
        return {"": self.env.action_space}

    def acting(self) -> list[str]:
        """The agents that act next."""
        return [""]

    def joined(self, actions: dict[str, Any]) -> Any:
        """What `step` takes, from the action of each agent that acts."""
        return actions[""]

    def is_over(self, result: Any) -> bool:
        """Whether the episode ended with `result`."""
        return isinstance(result, StepResult) and _is_true(result, "done")

    def parts(self, result: Any) -> dict[str, Part]:
        """What each agent was given."""
        return {"": {name: getattr(result, name) for name in FIELDS if hasattr(result, name)}}


class AgentsSubject(Subject):
    """An env of several agents."""

    reset_type = MAResetResult
    step_type = MAStepResult

    def observation_spaces(self) -> Mapping[str, Any]:
        """The observation space of each agent."""
        spaces: Mapping[str, Any] = self.env.observation_spaces
        return spaces

    def action_spaces(self) -> Mapping[str, Any]:
        """The action space of each agent."""
        spaces: Mapping[str, Any] = self.env.action_spaces
        return spaces

    def acting(self) -> list[str]:
        """The agents that act next."""
        return list(self.env.agents)

    def joined(self, actions: dict[str, Any]) -> Any:
        """What `step` takes, from the action of each agent that acts."""
        return actions

    def is_over(self, result: Any) -> bool:
        """Whether the episode ended with `result`."""
        if not isinstance(result, MAStepResult):
            return False
        return not self.env.agents or _is_true(result, "all_done")

    def parts(self, result: Any) -> dict[str, Part]:
        """What each agent was given."""
        given = {name: getattr(result, plural, {}) for name, plural in FIELDS.items()}
        agents = dict.fromkeys(agent for values in given.values() for agent in values)
        return {
            agent: {name: values[agent] for name, values in given.items() if agent in values}
            for agent in agents
        }


def subject_of(env: Any) -> Subject:
    """The env as a subject, or the reason why it cannot be one."""
    if isinstance(env, Env):
        return Subject(env)
    if isinstance(env, MultiAgentEnv):
        return AgentsSubject(env)
    if isinstance(env, type):
        raise CheckStopped(f"an env was wanted, found the class {env.__name__}: give an instance")
    family = type(env).__module__.partition(".")[0]
    advice = f": convert it with sekai.compat.from_{family}" if family in _ADAPTED else ""
    raise CheckStopped(
        f"a sekai.Env or a MultiAgentEnv was wanted, found a {type(env).__name__}{advice}"
    )


_ADAPTED = ("gymnasium", "pettingzoo")


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _of_type(result: Any, wanted: type, call: str) -> Any:
    if isinstance(result, wanted):
        return result
    raise CheckStopped(
        f"{call} must return a {wanted.__name__}, returned a {type(result).__name__}"
    )


def _is_true(result: Any, name: str) -> bool:
    try:
        return bool(getattr(result, name))
    except Exception:
        # Flags that are no flags: the check of results tells about them.
        return False
