"""Checks that results belong to those who were given them, and actions to those who gave them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from sekai.utils.checks.difference import first_difference
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.report import CheckStopped
from sekai.utils.checks.rollout import Event, compared, replay
from sekai.utils.checks.snapshot import fields_of, scribble, snapshot

__all__ = ["check_kept_results", "check_written_results"]


def check_kept_results(inspection: Inspection) -> None:
    """Results of the first run are still what they were when they were given."""
    for event in inspection.events:
        found = first_difference(event.values, fields_of(event.result))
        if found is not None:
            inspection.report.error(
                "overwritten",
                f"the result of {event.label} was changed by a later call ({found.sentence()}): "
                f"the env gives out a buffer that it overwrites, give out a copy",
            )


def check_written_results(inspection: Inspection) -> None:
    """Writing to what the env gave out, or to actions it was given, changes nothing inside it."""
    trials: list[tuple[str, Callable[[Event], object]]] = [
        ("observation", lambda event: scribble(_observations(event))),
        ("info", lambda event: scribble(fields_of(event.result)["info"])),
    ]
    for name, write in trials:
        sentence = _first_effect(inspection, write)
        if sentence is not None:
            report = inspection.report.error if name == "observation" else inspection.report.warn
            report(
                f"alias {name}",
                f"writing to the {name} that the env gave out changes the env ({sentence}): give "
                f"out a copy, or an array that is not writeable",
            )
    sentence = _effect_of_actions(inspection)
    if sentence is not None:
        inspection.report.error(
            "alias action",
            f"writing to an action after step() changes the env ({sentence}): keep a copy of it",
        )


def _observations(event: Event) -> object:
    fields = fields_of(event.result)
    return fields.get("observation", fields.get("observations"))


def _first_effect(inspection: Inspection, write: Callable[[Event], object]) -> str | None:
    """What differs in a run whose results are written over, if anything does."""
    try:
        repeated = replay(inspection.subject, inspection.events)
        comparison = compared(inspection.events, repeated, after=write)
    except CheckStopped as stopped:
        return str(stopped)
    return comparison.hard or comparison.soft


def _effect_of_actions(inspection: Inspection) -> str | None:
    given: list[object] = []

    def lent(events: list[Event]) -> Iterator[Event]:
        for event in events:
            given.append(snapshot(event.action))
            yield dataclasses.replace(event, action=given[-1])

    try:
        repeated = replay(inspection.subject, lent(inspection.events), copies=False)
        comparison = compared(inspection.events, repeated, after=lambda _: scribble(given[-1]))
    except CheckStopped as stopped:
        return str(stopped)
    return comparison.hard or comparison.soft
