"""Checks that an env continues from a saved state as if nothing had happened."""

from __future__ import annotations

from typing import Any

from sekai.error import StateError
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.report import CheckStopped, described
from sekai.utils.checks.rollout import Event, compared, replay

__all__ = ["check_state"]


def check_state(inspection: Inspection) -> None:
    """A state taken in mid-episode brings the env back there, as often as one likes."""
    head, tail = _halves(inspection.events)
    for _ in replay(inspection.subject, head):
        pass
    state = _saved(inspection)
    if state is None:
        return
    for _ in replay(inspection.subject, tail, rewind=False):
        pass
    # The second time shows whether the state itself was used up or written to.
    for time in ("", " a second time"):
        _load(inspection, state, time)
        comparison = compared(tail, replay(inspection.subject, tail, rewind=False))
        if comparison.hard is not None or comparison.soft is not None:
            inspection.report.error(
                "restored",
                f"the env does not continue as before after load_state_dict(state){time}: "
                f"{comparison.hard or comparison.soft}; the state was taken after {head[-1].label}",
            )
            return


def _halves(events: list[Event]) -> tuple[list[Event], list[Event]]:
    """The run in two parts, cut in the middle of an episode if there is a place for it."""
    middle = len(events) // 2
    places = sorted(range(1, len(events)), key=lambda place: abs(place - middle))
    cut = next((place for place in places if not events[place - 1].ends_episode), middle)
    return events[:cut], events[cut:]


def _saved(inspection: Inspection) -> Any:
    try:
        return inspection.env.state_dict()
    except StateError as error:
        inspection.report.warn("state", f"the env cannot be saved: {error}")
    except Exception as error:
        inspection.report.error("state", f"state_dict() raised {described(error)}")
    return None


def _load(inspection: Inspection, state: Any, time: str) -> None:
    try:
        inspection.env.load_state_dict(state)
    except Exception as error:
        raise CheckStopped(
            f"load_state_dict(state){time} raised {described(error)} for the env's own state"
        ) from error
