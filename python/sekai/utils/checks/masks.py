"""Checks that action masks have the form of their space and leave something to do."""

from __future__ import annotations

import copy
from typing import Any

from sekai.spaces.masks import allows
from sekai.utils.checks.chooser import mask_of
from sekai.utils.checks.inspection import Inspection, whose
from sekai.utils.checks.report import described
from sekai.utils.checks.rollout import Event

__all__ = ["check_masks"]


def check_masks(inspection: Inspection) -> None:
    """Every `info["action_mask"]` of a running episode can be sampled under, from first to last.

    That allowed actions are accepted shows in the run itself, which keeps to the masks.
    """
    spaces = copy.deepcopy(dict(inspection.subject.action_spaces()))
    masked: set[str] = set()
    for event in inspection.events:
        parts = inspection.subject.parts(event.result)
        for agent in spaces.keys() & parts.keys() if not event.ends_episode else ():
            mask = mask_of(parts[agent])
            if mask is not None:
                masked.add(agent)
                _check_mask(inspection, event, agent, spaces[agent], mask)
            elif agent in masked and not _is_out(parts[agent]):
                inspection.report.warn(
                    f"no mask {agent}",
                    f"info{whose(agent)} at {event.label} has no action_mask, and earlier ones had",
                )


def _check_mask(inspection: Inspection, event: Event, agent: str, space: Any, mask: Any) -> None:
    place = f"the action_mask{whose(agent)} at {event.label}"
    try:
        action = space.sample(mask=mask)
        is_allowed = allows(space, mask, action)
    except Exception as error:
        inspection.report.error(
            f"mask {agent}", f"{place} does not fit {space}: {described(error)}"
        )
        return
    if not is_allowed:
        inspection.report.error(
            f"mask {agent}", f"{place} does not allow what {space} samples under it, {action!r}"
        )


def _is_out(part: dict[str, Any]) -> bool:
    return bool(part.get("terminated", False)) or bool(part.get("truncated", False))
