"""Episodes as a sequence of moments in the data's time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sekai.spaces import Space
from sekai.utils.checks.rollout import Event, play, replay
from sekai.utils.checks.snapshot import snapshot
from sekai.utils.checks.subject import Subject

__all__ = ["Clock", "Moment", "learned_state", "record", "repeat"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One reset or step, the time it showed, and what the env had learned by then."""

    event: Event
    time: Any
    state: Any


class Clock:
    """Tells the time of the latest data that a result may know.

    `time_of(env, result)` if it is given, else `info["time_index"]`, else the steps since reset
    counted from `first_time`.
    """

    def __init__(self, time_of: Callable[[Any, Any], Any] | None, first_time: int) -> None:
        self._time_of = time_of
        self._first_time = first_time
        self._steps = 0
        self.is_counting = False

    def time(self, subject: Subject, event: Event) -> Any:
        """The time of `event`, which has just happened."""
        self._steps = 0 if event.is_reset else self._steps + 1
        if self._time_of is not None:
            return self._time_of(subject.env, event.result)
        for part in subject.parts(event.result).values():
            if isinstance(part.get("info"), dict) and "time_index" in part["info"]:
                return part["info"]["time_index"]
        self.is_counting = True
        return self._first_time + self._steps


Observe = Callable[[Any], Any]


def record(
    subject: Subject, clock: Clock, observe: Observe, seed: int, n_steps: int
) -> list[Moment]:
    """One episode with random actions, of at most `n_steps` steps."""
    moments = []
    for moment in _moments(subject, clock, observe, play(subject, seed, n_steps, seed)):
        moments.append(moment)
        if moment.event.ends_episode:
            break
    return moments


def repeat(
    subject: Subject, clock: Clock, observe: Observe, moments: Iterable[Moment]
) -> Iterator[Moment]:
    """The same calls again, on an env that may have other data."""
    events = (moment.event for moment in moments)
    return _moments(subject, clock, observe, replay(subject, events))


def learned_state(env: Any) -> dict[str, Any]:
    """The states of all parts of a stack that keep one of their own, such as normalisers."""
    return {
        f"{type(layer).__name__}.{name}": snapshot(value.state_dict())
        for layer in env
        for name, value in list(vars(layer).items())
        if name != "env" and not isinstance(value, Space) and _has_state(value)
    }


def _moments(
    subject: Subject, clock: Clock, observe: Observe, events: Iterable[Event]
) -> Iterator[Moment]:
    for event in events:
        yield Moment(event, clock.time(subject, event), observe(subject.env))


def _has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
