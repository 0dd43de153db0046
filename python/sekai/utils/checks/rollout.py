"""Plays an env and records what it gave; plays the same again and compares."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from sekai.utils.checks.chooser import Chooser
from sekai.utils.checks.difference import Difference, field_differences, first_difference
from sekai.utils.checks.report import CheckStopped
from sekai.utils.checks.snapshot import fields_of, snapshot
from sekai.utils.checks.subject import Subject

__all__ = ["Comparison", "Event", "compared", "play", "replay", "replay_async"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One reset or step, and what it gave."""

    label: str
    """`reset(seed=0)` or `step 12`; steps are counted through all episodes."""

    is_reset: bool
    seed: int | None
    action: Any
    result: Any
    """The result itself."""

    values: dict[str, Any]
    """Its fields as they were at the time."""

    ends_episode: bool = False


def play(subject: Subject, seed: int | None, n_steps: int, action_seed: int = 0) -> Iterator[Event]:
    """Step `n_steps` times with random actions; episodes that end are followed by others."""
    subject.layers.rewind()
    chooser = Chooser(subject, action_seed)
    event = _reset(subject, seed)
    yield event
    for number in range(1, n_steps + 1):
        if event.ends_episode:
            event = _reset(subject, None)
            yield event
        event = _step(subject, chooser.choose(event.result), number)
        yield event


def replay(
    subject: Subject, events: Iterable[Event], *, rewind: bool = True, copies: bool = True
) -> Iterator[Event]:
    """Make the same calls with the same actions, or copies of them."""
    if rewind:
        subject.layers.rewind()
    for event in events:
        if event.is_reset:
            yield _reset(subject, event.seed)
        else:
            action = snapshot(event.action) if copies else event.action
            yield _step(subject, action, _number(event))


async def replay_async(subject: Subject, events: Iterable[Event]) -> AsyncIterator[Event]:
    """Make the same calls through the async methods."""
    subject.layers.rewind()
    for event in events:
        try:
            if event.is_reset:
                result = await subject.async_reset(**_reset_arguments(event.seed))
            else:
                result = await subject.async_step(snapshot(event.action))
        except CheckStopped as stopped:
            raise CheckStopped(f"{stopped}, at {event.label}") from stopped
        yield dataclasses.replace(event, result=result, values=snapshot(fields_of(result)))


class Comparison:
    """Where a second run first gave something else than the first."""

    def __init__(self) -> None:
        self.hard: str | None = None
        """In what the agent sees or earns: the runs are not the same."""
        self.soft: str | None = None
        """In the rest of the info."""

    def add(self, first: Event, second: Event) -> bool:
        """Compare the results of one call; whether the runs are still the same."""
        for found in field_differences(first.values, second.values):
            self._note(found, first.label)
        return self.hard is None

    def _note(self, found: Difference, label: str) -> None:
        sentence = f"at {label} {found.sentence()}"
        if found.path[0] != "info" or "action_mask" in found.path:
            self.hard = self.hard or sentence
        else:
            self.soft = self.soft or sentence


def compared(
    first: Iterable[Event], second: Iterator[Event], after: Callable[[Event], object] = lambda _: 0
) -> Comparison:
    """Compare two runs until they part; `after` is called with every result of the second."""
    comparison = Comparison()
    for event in first:
        repeated = next(second, None)
        if repeated is None or not comparison.add(event, repeated):
            break
        after(repeated)
    return comparison


def _reset(subject: Subject, seed: int | None) -> Event:
    result = subject.reset(**_reset_arguments(seed))
    label = "reset()" if seed is None else f"reset(seed={seed})"
    return Event(label, True, seed, None, result, snapshot(fields_of(result)))


def _step(subject: Subject, action: Any, number: int) -> Event:
    kept = snapshot(action)
    try:
        result = subject.step(action)
    except CheckStopped as stopped:
        raise CheckStopped(f"{stopped}, at step {number} with the action {kept!r}") from stopped
    changed = first_difference(kept, action, ("action",))
    if changed is not None:
        raise CheckStopped(f"step() changed the action it was given: {changed.sentence()}")
    is_over = subject.is_over(result)
    values = snapshot(fields_of(result))
    return Event(f"step {number}", False, None, kept, result, values, is_over)


def _reset_arguments(seed: int | None) -> dict[str, Any]:
    return {} if seed is None else {"seed": seed}


def _number(event: Event) -> int:
    return int(event.label.removeprefix("step "))
