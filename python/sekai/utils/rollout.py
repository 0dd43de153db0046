"""Rollouts of checks: play an env, record the results, replay them and compare."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sekai.core import state
from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.core.wrapper import BaseWrapper
from sekai.error import StateError
from sekai.utils.findings import (
    CheckStopped,
    Report,
    ValueDifference,
    deep_copy,
    describe_error,
    field_differences,
    fields_of,
    first_difference,
    stopping,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Reset or step and its result."""

    label: str
    """`reset(seed=0)` or `step 12`; steps are counted over all episodes."""

    is_reset: bool
    seed: int | None
    action: Any
    result: Any
    """Result object."""

    values: dict[str, Any]
    """Copy of its fields at that time."""

    ends_episode: bool = False


def play(
    checked: CheckedEnv, seed: int | None, n_steps: int, action_seed: int = 0
) -> Iterator[Event]:
    """Step `n_steps` times with random actions, over as many episodes as needed."""
    checked.wrapper_states.rewind()
    chooser = ActionSampler(checked, action_seed)
    event = _reset(checked, seed)
    yield event
    for number in range(1, n_steps + 1):
        if event.ends_episode:
            event = _reset(checked, None)
            yield event
        event = _step(checked, chooser.choose(event.result), number)
        yield event


def replay(
    checked: CheckedEnv, events: Iterable[Event], *, rewind: bool = True, copies: bool = True
) -> Iterator[Event]:
    """Repeat the calls of a run with the same actions, or copies of them."""
    if rewind:
        checked.wrapper_states.rewind()
    for event in events:
        if event.is_reset:
            yield _reset(checked, event.seed)
        else:
            action = deep_copy(event.action) if copies else event.action
            yield _step(checked, action, _number(event))


async def replay_async(checked: CheckedEnv, events: Iterable[Event]) -> AsyncIterator[Event]:
    """Repeat the calls of a run through the async methods."""
    checked.wrapper_states.rewind()
    for event in events:
        try:
            if event.is_reset:
                result = await checked.async_reset(**_reset_arguments(event.seed))
            else:
                result = await checked.async_step(deep_copy(event.action))
        except CheckStopped as stopped:
            raise CheckStopped(f"{stopped}, at {event.label}") from stopped
        yield dataclasses.replace(event, result=result, values=deep_copy(fields_of(result)))


class RunComparison:
    """First differences between two runs."""

    def __init__(self) -> None:
        self.hard: str | None = None
        """Difference in observation, reward, flags or mask: the runs are not equal."""
        self.soft: str | None = None
        """Difference in the rest of the info."""

    def add(self, first: Event, second: Event) -> bool:
        """Compare the results of one call; return True while the runs are equal."""
        for difference in field_differences(first.values, second.values):
            self._note(difference, first.label)
        return self.hard is None

    def _note(self, difference: ValueDifference, label: str) -> None:
        sentence = f"at {label} {difference.sentence()}"
        if difference.path[0] != "info" or "action_mask" in difference.path:
            self.hard = self.hard or sentence
        else:
            self.soft = self.soft or sentence


def compare_runs(
    first: Iterable[Event], second: Iterator[Event], after: Callable[[Event], object] = lambda _: 0
) -> RunComparison:
    """Compare two runs until they differ; `after` is called with every result of the second."""
    comparison = RunComparison()
    for event in first:
        repeated = next(second, None)
        if repeated is None or not comparison.add(event, repeated):
            break
        after(repeated)
    return comparison


def _reset(checked: CheckedEnv, seed: int | None) -> Event:
    result = checked.reset(**_reset_arguments(seed))
    label = "reset()" if seed is None else f"reset(seed={seed})"
    return Event(label, True, seed, None, result, deep_copy(fields_of(result)))


def _step(checked: CheckedEnv, action: Any, number: int) -> Event:
    original = deep_copy(action)
    try:
        result = checked.step(action)
    except CheckStopped as stopped:
        raise CheckStopped(f"{stopped}, at step {number} with the action {original!r}") from stopped
    changed = first_difference(original, action, ("action",))
    if changed is not None:
        raise CheckStopped(f"step() changed its action argument: {changed.sentence()}")
    is_over = checked.is_over(result)
    values = deep_copy(fields_of(result))
    return Event(f"step {number}", False, None, original, result, values, is_over)


def _reset_arguments(seed: int | None) -> dict[str, Any]:
    return {} if seed is None else {"seed": seed}


def _number(event: Event) -> int:
    return int(event.label.removeprefix("step "))


class WrapperStates:
    """Initial states of the wrappers around the base env, without their random generators.

    A normalizer learns from one episode to the next, so that the same seed shows another
    observation the second time. Restoring the wrappers makes runs comparable. The base env is not
    restored.
    """

    def __init__(self, env: Any) -> None:
        self._states: list[tuple[BaseWrapper, dict[str, Any], frozenset[str]]] = []
        self._originals: list[tuple[BaseWrapper, dict[str, Any]]] = []
        for layer in env:
            if isinstance(layer, BaseWrapper):
                self._add(layer)

    def rewind(self) -> None:
        """Restore the initial state of every wrapper."""
        for layer, captured, excluded in self._states:
            state.restore(layer, captured, excluded)

    def restore_originals(self) -> None:
        """Restore the original attribute objects of every wrapper, in their initial state."""
        self.rewind()
        for layer, attributes in self._originals:
            vars(layer).clear()
            vars(layer).update(attributes)

    def _add(self, layer: BaseWrapper) -> None:
        excluded = layer._excluded() | {
            name for name, value in vars(layer).items() if isinstance(value, np.random.Generator)
        }
        try:
            captured = state.capture(layer, excluded)
        except StateError:
            # `check_state` reports it.
            return
        self._states.append((layer, captured, excluded))
        self._originals.append((layer, dict(vars(layer))))


Part = dict[str, Any]
"""Result of one agent: observation, reward, terminated, truncated and info, as present."""

FIELDS = {
    "observation": "observations",
    "reward": "rewards",
    "terminated": "terminated",
    "truncated": "truncated",
    "info": "info",
}
"""Field names of a single-agent result and of a multi-agent result."""


class CheckedEnv:
    """Env under check, with one interface for single- and multi-agent envs.

    A single-agent env is treated as a multi-agent env whose only agent has an empty name.
    """

    reset_type: type = ResetResult
    step_type: type = StepResult

    def __init__(self, env: Any) -> None:
        self.env = env
        self.wrapper_states = WrapperStates(env)

    def reset(self, **arguments: Any) -> Any:
        """Call `env.reset`; an exception or a wrong result type stops the check."""
        call = _call("reset", arguments)
        with stopping(call):
            result = self.env.reset(**arguments)
        return _of_type(result, self.reset_type, call)

    def step(self, action: Any) -> Any:
        """Call `env.step`; an exception or a wrong result type stops the check."""
        with stopping("step()"):
            result = self.env.step(action)
        return _of_type(result, self.step_type, "step()")

    async def async_reset(self, **arguments: Any) -> Any:
        """Await `env.async_reset`; an exception or a wrong result type stops the check."""
        call = _call("async_reset", arguments)
        with stopping(call):
            result = await self.env.async_reset(**arguments)
        return _of_type(result, self.reset_type, call)

    async def async_step(self, action: Any) -> Any:
        """Await `env.async_step`; an exception or a wrong result type stops the check."""
        with stopping("async_step()"):
            result = await self.env.async_step(action)
        return _of_type(result, self.step_type, "async_step()")

    def observation_spaces(self) -> Mapping[str, Any]:
        """Observation space of each agent."""
        return {"": self.env.observation_space}

    def action_spaces(self) -> Mapping[str, Any]:
        """Action space of each agent."""
        return {"": self.env.action_space}

    def acting(self) -> list[str]:
        """Agents that act next."""
        return [""]

    def joined(self, actions: dict[str, Any]) -> Any:
        """Return the argument of `step`, from the action of each agent."""
        return actions[""]

    def is_over(self, result: Any) -> bool:
        """Return True if the episode ended with `result`."""
        return isinstance(result, StepResult) and _is_true(result, "done")

    def parts(self, result: Any) -> dict[str, Part]:
        """Split a result by agent."""
        return {"": {name: getattr(result, name) for name in FIELDS if hasattr(result, name)}}


class CheckedMultiAgentEnv(CheckedEnv):
    """Multi-agent env under check."""

    reset_type = MAResetResult
    step_type = MAStepResult

    def observation_spaces(self) -> Mapping[str, Any]:
        """Observation space of each agent."""
        spaces: Mapping[str, Any] = self.env.observation_spaces
        return spaces

    def action_spaces(self) -> Mapping[str, Any]:
        """Action space of each agent."""
        spaces: Mapping[str, Any] = self.env.action_spaces
        return spaces

    def acting(self) -> list[str]:
        """Agents that act next."""
        return list(self.env.agents)

    def joined(self, actions: dict[str, Any]) -> Any:
        """Return the argument of `step`, from the action of each agent."""
        return actions

    def is_over(self, result: Any) -> bool:
        """Return True if the episode ended with `result`."""
        if not isinstance(result, MAStepResult):
            return False
        return not self.env.agents or _is_true(result, "all_done")

    def parts(self, result: Any) -> dict[str, Part]:
        """Split a result by agent."""
        fields = {name: getattr(result, plural, {}) for name, plural in FIELDS.items()}
        agents = dict.fromkeys(agent for values in fields.values() for agent in values)
        return {
            agent: {name: values[agent] for name, values in fields.items() if agent in values}
            for agent in agents
        }


def checked_env(env: Any) -> CheckedEnv:
    """Return the env under check, or raise `CheckStopped` if it is not an env."""
    if isinstance(env, Env):
        return CheckedEnv(env)
    if isinstance(env, MultiAgentEnv):
        return CheckedMultiAgentEnv(env)
    if isinstance(env, type):
        raise CheckStopped(f"expected an env, got the class {env.__name__}; pass an instance")
    family = type(env).__module__.partition(".")[0]
    advice = f"; convert it with sekai.compat.from_{family}" if family in _ADAPTED else ""
    raise CheckStopped(f"expected a sekai.Env or a MultiAgentEnv, got {type(env).__name__}{advice}")


_ADAPTED = ("gymnasium", "pettingzoo")


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _of_type(result: Any, expected: type, call: str) -> Any:
    if isinstance(result, expected):
        return result
    raise CheckStopped(
        f"{call} must return a {expected.__name__}, returned a {type(result).__name__}"
    )


def _is_true(result: Any, name: str) -> bool:
    try:
        return bool(getattr(result, name))
    except Exception:
        # Not a flag: `check_result` reports it.
        return False


class ActionSampler:
    """Random actions from copies of the action spaces, which leaves the env's generators alone."""

    def __init__(self, checked: CheckedEnv, seed: int) -> None:
        self._checked = checked
        self._spaces: dict[str, Any] = {}
        for number, (agent, space) in enumerate(checked.action_spaces().items()):
            self._spaces[agent] = copy.deepcopy(space)
            self._spaces[agent].seed(seed + number)

    def choose(self, result: Any) -> Any:
        """Return the argument of the `step` after `result`."""
        parts = self._checked.parts(result)
        actions = {
            agent: self._sampled(agent, mask_of(parts.get(agent, {})))
            for agent in self._checked.acting()
        }
        return self._checked.joined(actions)

    def _sampled(self, agent: str, mask: Any) -> Any:
        space = self._spaces.get(agent)
        if space is None:
            raise CheckStopped(f"live agent {agent!r} has no action space")
        try:
            return space.sample() if mask is None else space.sample(mask=mask)
        except Exception as error:
            if mask is not None:
                # `check_masks` reports the mask.
                return self._sampled(agent, None)
            raise CheckStopped(f"action_space.sample() raised {describe_error(error)}") from error


def mask_of(part: dict[str, Any]) -> Any:
    """Return the action mask of an agent, or None."""
    info = part.get("info")
    return info.get("action_mask") if isinstance(info, dict) else None


@dataclasses.dataclass(slots=True)
class CheckRun:
    """Env, settings and reference run that all checks share."""

    checked: CheckedEnv
    report: Report
    n_steps: int
    seed: int
    events: list[Event] = dataclasses.field(default_factory=list)
    """Reference run with `seed`, to which other runs are compared."""

    @property
    def env(self) -> Any:
        """Env under check."""
        return self.checked.env


def of_agent(agent: str) -> str:
    """Return `" of agent 'a'"`, or nothing for a single-agent env."""
    return f" of agent {agent!r}" if agent else ""
