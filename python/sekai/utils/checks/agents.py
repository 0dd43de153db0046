"""Checks who takes part in an env of several agents, and that each is given what is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.result import MAResetResult, MAStepResult
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.report import CheckStopped, Report
from sekai.utils.checks.rollout import Event

__all__ = ["check_names", "check_shares"]

EARNED = ("rewards", "terminated", "truncated")
"""What every agent that acted must be given."""


def check_names(inspection: Inspection) -> None:
    """`possible_agents` names everyone once, and everyone has spaces."""
    agents = getattr(inspection.env, "possible_agents", None)
    if not isinstance(agents, (list, tuple)) or not all(isinstance(name, str) for name in agents):
        raise CheckStopped(f"possible_agents must be a list of names, was {agents!r}")
    if len(set(agents)) < len(agents):
        raise CheckStopped(f"possible_agents must name each agent once, was {list(agents)}")
    for name in ("observation_spaces", "action_spaces"):
        absent = sorted(set(agents) - set(getattr(inspection.env, name)))
        if absent:
            raise CheckStopped(f"{name} lacks the agents {absent}")


def check_shares(inspection: Inspection, event: Event, alive: list[str]) -> None:
    """Those who acted are told what came of it, and those who act next what they see.

    Args:
        inspection: the env and where findings go.
        event: the reset or step to check.
        alive: the agents that `env.agents` named right after it.
    """
    report, result = inspection.report, event.result
    possible = set(inspection.env.possible_agents)
    if set(alive) - possible:
        strangers = sorted(set(alive) - possible)
        report.error("agents", f"agents at {event.label} names {strangers}, not possible_agents")
    if event.is_reset and not alive:
        report.error("nobody", f"agents is empty after {event.label}: nobody can act")
    _check_keys(report, event, "observations", set(alive), possible)
    _check_keys(report, event, "info", set(alive), possible)
    if isinstance(result, MAStepResult):
        for name in EARNED:
            _check_keys(report, event, name, set(event.action), possible)
        _check_leaving(report, event, result, alive)
    else:
        assert isinstance(result, MAResetResult), "the subject lets no other type through"


def _check_keys(
    report: Report, event: Event, name: str, wanted: set[str], possible: set[str]
) -> None:
    given: Any = getattr(event.result, name)
    if not isinstance(given, Mapping):
        raise CheckStopped(f"{name} at {event.label} must be a dict by agent, was {given!r}")
    if wanted - given.keys():
        report.error(
            f"lacks {name}", f"{name} at {event.label} lacks {sorted(wanted - given.keys())}"
        )
    if given.keys() - possible:
        strangers = sorted(map(str, given.keys() - possible))
        report.error(f"stranger {name}", f"{name} at {event.label} names {strangers}, not agents")


def _check_leaving(report: Report, event: Event, result: MAStepResult, alive: list[str]) -> None:
    dones = result.dones
    staying = sorted(agent for agent in alive if dones.get(agent, False))
    if staying and not all(dones.values()):
        report.warn(
            "staying", f"agents {staying} are out at {event.label} and still in agents: remove them"
        )
