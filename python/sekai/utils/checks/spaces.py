"""Checks that the spaces are there, are spaces, and contain what they sample."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from sekai.spaces import Space
from sekai.utils.checks.inspection import Inspection, whose
from sekai.utils.checks.report import CheckStopped, described
from sekai.utils.checks.subject import AgentsSubject

__all__ = ["check_samples", "check_spaces", "check_spaces_stay", "spaces_of"]

SAMPLES = 10
"""How many samples are asked whether they belong."""


def check_spaces(inspection: Inspection) -> None:
    """The env declares an observation space and an action space, of sekai's kind."""
    plural = "s" if isinstance(inspection.subject, AgentsSubject) else ""
    for name in (f"observation_space{plural}", f"action_space{plural}"):
        declared = _declared(inspection.env, name)
        spaces = declared if plural else {"": declared}
        if not isinstance(spaces, Mapping):
            raise CheckStopped(f"{name} must map agents to spaces, was {spaces!r}")
        for agent, space in spaces.items():
            _require_space(f"{name}{whose(agent)}", space)


def check_samples(inspection: Inspection) -> None:
    """What the action space samples belongs to the action space."""
    for agent, space in inspection.subject.action_spaces().items():
        own = copy.deepcopy(space)
        own.seed(inspection.seed)
        for _ in range(SAMPLES):
            reason = _sample_mismatch(own)
            if reason is not None:
                name = f"action_space.sample(){whose(agent)}"
                inspection.report.error(f"sample {agent}", f"{name} is not in the space: {reason}")


def spaces_of(inspection: Inspection) -> dict[str, dict[str, Any]]:
    """All spaces as they are now."""
    subject = inspection.subject
    return {
        "observation_space": dict(subject.observation_spaces()),
        "action_space": dict(subject.action_spaces()),
    }


def check_spaces_stay(inspection: Inspection, before: Mapping[str, Any]) -> None:
    """Playing does not change the spaces, which those outside have read once."""
    for name, spaces in spaces_of(inspection).items():
        if spaces != before[name]:
            inspection.report.error(
                f"changed {name}", f"{name} changed while playing: was {before[name]}, now {spaces}"
            )


def _declared(env: Any, name: str) -> Any:
    try:
        return getattr(env, name)
    except AttributeError as error:
        raise CheckStopped(
            f"{name} is not defined: set it in __init__ of {type(env.unwrapped).__name__}"
        ) from error
    except Exception as error:
        raise CheckStopped(f"reading {name} raised {described(error)}") from error


def _require_space(name: str, space: Any) -> None:
    if isinstance(space, Space):
        return
    is_foreign = type(space).__module__.startswith("gymnasium")
    advice = ": convert it with sekai.compat.space_from_gymnasium" if is_foreign else ""
    raise CheckStopped(f"{name} must be a sekai space, was {type(space).__name__}{advice}")


def _sample_mismatch(space: Any) -> str | None:
    try:
        sample = space.sample()
        reason: str | None = space.mismatch(sample)
    except Exception as error:
        return f"it raised {described(error)}"
    return reason
