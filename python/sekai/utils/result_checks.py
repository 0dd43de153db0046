"""Checks of results: observations, rewards, flags, infos, spaces, masks and agents."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.core.result import MAResetResult, MAStepResult
from sekai.spaces import Box, Dict, MaskedBox, Simplex, Space, Tuple
from sekai.spaces.masks import allows
from sekai.utils.findings import CheckStopped, Report, describe_error
from sekai.utils.rollout import CheckedMultiAgentEnv, CheckRun, Event, mask_of, of_agent

NUMBERS = (int, float, np.integer, np.floating)
FLAGS = (bool, np.bool_)


def check_result(run: CheckRun, event: Event, check_obs_space: bool) -> None:
    """Check the types in one result, and that the observation is in its space."""
    spaces = run.checked.observation_spaces()
    for agent, part in run.checked.parts(event.result).items():
        where = f"{of_agent(agent)} at {event.label}"
        if check_obs_space and "observation" in part and agent in spaces:
            _check_observation(run.report, spaces[agent], part["observation"], where)
        if "reward" in part:
            _check_reward(run.report, part["reward"], where)
        for name in ("terminated", "truncated"):
            if name in part and not isinstance(part[name], FLAGS):
                shown = _shown(part[name])
                run.report.error(name, f"{name}{where} must be a bool, got {shown}")
        if not isinstance(part.get("info", {}), dict):
            run.report.error("info", f"info{where} must be a dict, got {_shown(part['info'])}")


def _check_observation(report: Report, space: Any, observation: Any, where: str) -> None:
    # In this order: bounds can only be checked on a value of the right structure.
    reason = structure_mismatch(space, observation)
    if reason is not None:
        report.error(
            "form", f"observation{where} does not have the structure of observation_space: {reason}"
        )
    elif has_nan(observation):
        report.error("nan", f"observation{where} contains NaN")
    else:
        reason = space.mismatch(observation)
        if reason is not None:
            report.warn("outside", f"observation{where} is outside observation_space: {reason}")


def _check_reward(report: Report, reward: Any, where: str) -> None:
    if isinstance(reward, bool) or not isinstance(reward, NUMBERS):
        report.error("reward", f"reward{where} must be a float, got {_shown(reward)}")
    elif not math.isfinite(reward):
        report.error("finite", f"reward{where} must be finite, got {float(reward)}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def structure_mismatch(space: Space[Any], value: Any) -> str | None:
    """Return the reason why a value lacks the keys, shape or dtype of a space, or None."""
    if isinstance(space, MaskedBox):
        return structure_mismatch(space.parts, value)
    if isinstance(space, (Dict, Tuple)):
        return _nested_form_mismatch(space, value)
    if space.shape is None or space.dtype is None:
        return None
    return _array_form_mismatch(space, value)


def has_nan(value: Any) -> bool:
    """Return True if a nested value contains NaN."""
    if isinstance(value, dict):
        return any(map(has_nan, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_nan, value))
    if not hasattr(value, "__array__") and not isinstance(value, float):
        return False
    array = np.asarray(value)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _nested_form_mismatch(space: Dict | Tuple, value: Any) -> str | None:
    children: Mapping[Any, Space[Any]] = space.children()
    expected, is_dict = list(children), isinstance(space, Dict)
    if not isinstance(value, dict if is_dict else tuple):
        return f"expected a {'dict' if is_dict else 'tuple'}, got {type(value).__name__}"
    keys = list(value) if is_dict else list(range(len(value)))
    if set(keys) != set(expected):
        return f"expected the keys {expected}, got {keys}"
    for key, child in children.items():
        reason = structure_mismatch(child, value[key])
        if reason is not None:
            return f"[{key!r}] {reason}"
    return None


def _array_form_mismatch(space: Space[Any], value: Any) -> str | None:
    assert space.dtype is not None, "only spaces of arrays come here"
    if not isinstance(value, (int, float, bool)) and not hasattr(value, "__array__"):
        return f"expected an array of shape {space.shape}, got {type(value).__name__}"
    array = np.asarray(value)
    if array.shape != space.shape:
        return f"expected shape {space.shape}, got {array.shape}"
    # A Python number has a kind but no dtype.
    is_exact = isinstance(space, (Box, Simplex)) and hasattr(value, "__array__")
    if not np.can_cast(array.dtype, space.dtype, "safe" if is_exact else "same_kind"):
        return f"expected dtype {space.dtype}, got {array.dtype}"
    return None


SAMPLES = 10
"""Number of samples that are checked."""


def check_spaces(run: CheckRun) -> None:
    """Check that the env has an observation space and an action space of sekai."""
    plural = "s" if isinstance(run.checked, CheckedMultiAgentEnv) else ""
    for name in (f"observation_space{plural}", f"action_space{plural}"):
        declared = _declared(run.env, name)
        spaces = declared if plural else {"": declared}
        if not isinstance(spaces, Mapping):
            raise CheckStopped(f"{name} must be a mapping of agents to spaces, got {spaces!r}")
        for agent, space in spaces.items():
            _require_space(f"{name}{of_agent(agent)}", space)


def check_samples(run: CheckRun) -> None:
    """Check that samples of the action space are in it."""
    for agent, space in run.checked.action_spaces().items():
        own = copy.deepcopy(space)
        own.seed(run.seed)
        for _ in range(SAMPLES):
            reason = _sample_mismatch(own)
            if reason is not None:
                name = f"action_space.sample(){of_agent(agent)}"
                run.report.error(f"sample {agent}", f"{name} is not in the space: {reason}")


def spaces_of(run: CheckRun) -> dict[str, dict[str, Any]]:
    """Return the current spaces of an env."""
    checked = run.checked
    return {
        "observation_space": dict(checked.observation_spaces()),
        "action_space": dict(checked.action_spaces()),
    }


def check_spaces_unchanged(run: CheckRun, before: Mapping[str, Any]) -> None:
    """Check that playing has not changed the spaces."""
    for name, spaces in spaces_of(run).items():
        if spaces != before[name]:
            run.report.error(
                f"changed {name}", f"{name} changed while playing: was {before[name]}, now {spaces}"
            )


def _declared(env: Any, name: str) -> Any:
    try:
        return getattr(env, name)
    except AttributeError as error:
        raise CheckStopped(
            f"{name} is not defined; set it in __init__ of {type(env.unwrapped).__name__}"
        ) from error
    except Exception as error:
        raise CheckStopped(f"reading {name} raised {describe_error(error)}") from error


def _require_space(name: str, space: Any) -> None:
    if isinstance(space, Space):
        return
    is_foreign = type(space).__module__.startswith("gymnasium")
    advice = "; convert it with sekai.compat.space_from_gymnasium" if is_foreign else ""
    raise CheckStopped(f"{name} must be a sekai space, got {type(space).__name__}{advice}")


def _sample_mismatch(space: Any) -> str | None:
    try:
        sample = space.sample()
        reason: str | None = space.mismatch(sample)
    except Exception as error:
        return f"it raised {describe_error(error)}"
    return reason


def check_masks(run: CheckRun) -> None:
    """Check that every `info["action_mask"]` of a running episode can be sampled under.

    The run itself, which follows the masks, shows that allowed actions are accepted.
    """
    spaces = copy.deepcopy(dict(run.checked.action_spaces()))
    masked: set[str] = set()
    for event in run.events:
        parts = run.checked.parts(event.result)
        for agent in spaces.keys() & parts.keys() if not event.ends_episode else ():
            mask = mask_of(parts[agent])
            if mask is not None:
                masked.add(agent)
                _check_mask(run, event, agent, spaces[agent], mask)
            elif agent in masked and not _is_out(parts[agent]):
                run.report.warn(
                    f"no mask {agent}",
                    f"info{of_agent(agent)} at {event.label} has no action_mask, earlier infos had",
                )


def _check_mask(run: CheckRun, event: Event, agent: str, space: Any, mask: Any) -> None:
    name = f"action_mask{of_agent(agent)} at {event.label}"
    try:
        action = space.sample(mask=mask)
        is_allowed = allows(space, mask, action)
    except Exception as error:
        run.report.error(f"mask {agent}", f"{name} does not fit {space}: {describe_error(error)}")
        return
    if not is_allowed:
        run.report.error(
            f"mask {agent}",
            f"{name} does not allow the sample {action!r} that {space} draws under it",
        )


def _is_out(part: dict[str, Any]) -> bool:
    return bool(part.get("terminated", False)) or bool(part.get("truncated", False))


EARNED = ("rewards", "terminated", "truncated")
"""Fields that every agent that acted must receive."""


def check_agents(run: CheckRun) -> None:
    """Check that `possible_agents` are unique and have spaces."""
    agents = getattr(run.env, "possible_agents", None)
    if not isinstance(agents, (list, tuple)) or not all(isinstance(name, str) for name in agents):
        raise CheckStopped(f"possible_agents must be a list of names, got {agents!r}")
    if len(set(agents)) < len(agents):
        raise CheckStopped(f"possible_agents must be unique, got {list(agents)}")
    for name in ("observation_spaces", "action_spaces"):
        absent = sorted(set(agents) - set(getattr(run.env, name)))
        if absent:
            raise CheckStopped(f"{name} lacks the agents {absent}")


def check_agent_results(run: CheckRun, event: Event, alive: list[str]) -> None:
    """Check that agents that acted get their results, and agents that act next an observation.

    Args:
        run: the env and the report.
        event: reset or step to check.
        alive: agents in `env.agents` right after it.
    """
    report, result = run.report, event.result
    possible = set(run.env.possible_agents)
    if set(alive) - possible:
        unknown = sorted(set(alive) - possible)
        report.error(
            "agents", f"agents at {event.label} has {unknown}, which are not in possible_agents"
        )
    if event.is_reset and not alive:
        report.error("nobody", f"agents is empty after {event.label}; expected at least one")
    _check_keys(report, event, "observations", set(alive), possible)
    _check_keys(report, event, "info", set(alive), possible)
    if isinstance(result, MAStepResult):
        for name in EARNED:
            _check_keys(report, event, name, set(event.action), possible)
        _check_leaving(report, event, result, alive)
    else:
        assert isinstance(result, MAResetResult), "the checked lets no other type through"


def _check_keys(
    report: Report, event: Event, name: str, expected: set[str], possible: set[str]
) -> None:
    values: Any = getattr(event.result, name)
    if not isinstance(values, Mapping):
        raise CheckStopped(f"{name} at {event.label} must be a dict by agent, got {values!r}")
    if expected - values.keys():
        report.error(
            f"lacks {name}", f"{name} at {event.label} lacks {sorted(expected - values.keys())}"
        )
    if values.keys() - possible:
        unknown = sorted(map(str, values.keys() - possible))
        report.error(f"stranger {name}", f"{name} at {event.label} has unknown agents {unknown}")


def _check_leaving(report: Report, event: Event, result: MAStepResult, alive: list[str]) -> None:
    dones = result.dones
    staying = sorted(agent for agent in alive if dones.get(agent, False))
    if staying and not all(dones.values()):
        report.warn(
            "staying",
            f"agents {staying} are done at {event.label} but still in agents; remove them",
        )
