"""Checks that the past of an episode stays as it was when the future is changed."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from itertools import takewhile
from typing import Any

from sekai.utils.checks.difference import Difference, field_differences
from sekai.utils.checks.moments import Moment
from sekai.utils.checks.report import CheckStopped, Report
from sekai.utils.checks.worlds import Refused, Worlds

__all__ = ["Foresight"]

TOPICS = {
    "observation": "observation",
    "observations": "observation",
    "reward": "reward",
    "rewards": "reward",
    "terminated": "terminated",
    "truncated": "truncated",
    "state": "normaliser state",
}
"""What a difference is about, by the field in which it is."""


class Foresight:
    """Reports what depends on data of a later time."""

    def __init__(self, worlds: Worlds, report: Report, fill_keys: Collection[str]) -> None:
        self._worlds = worlds
        self._report = report
        self._fill_keys = set(fill_keys)

    def check(self, moments: list[Moment], time: Any, kind: str) -> None:
        """Change the data after `time`, and compare the episode up to `time`."""
        # Once the env has seen more, what it carries along may differ for good reason.
        past = list(takewhile(lambda moment: moment.time <= time, moments))
        try:
            with closing(self._worlds.changed(past, time, kind)) as repeats:
                for moment, again in zip(past, repeats, strict=True):
                    self._compare(moment, again, time, kind)
        except Refused:
            pass
        except CheckStopped as stopped:
            # Data that ends early may well end the episode early.
            if kind != "truncated":
                self._report.error(
                    "raised", f"other data after time {time} ({kind}) broke the past: {stopped}"
                )

    def _compare(self, moment: Moment, again: Moment, time: Any, kind: str) -> None:
        before = {**moment.event.values, "state": moment.state}
        after = {**again.event.values, "state": again.state}
        for found in field_differences(before, after):
            if kind == "truncated" and found.path[0] in ("terminated", "truncated"):
                continue
            topic = self._topic(found)
            tell = self._report.warn if topic == "info" else self._report.error
            tell(
                topic,
                f"{topic} at {moment.event.label} depends on data after time {time}: "
                f"{found.sentence('is', f'and with {kind} data after it')}{self._hint(moment)}",
            )

    def _topic(self, found: Difference) -> str:
        if found.path[0] != "info":
            return TOPICS[found.path[0]]
        if "action_mask" in found.path:
            return "action mask"
        return "executed price" if self._fill_keys & set(found.path[1:3]) else "info"

    def _hint(self, moment: Moment) -> str:
        if not (self._worlds.clock.is_counting and moment.event.is_reset):
            return ""
        return (
            f" (a reset is taken to know data up to time {moment.time}; if it may know more, say "
            f"so with first_time=, time_of= or info['time_index'])"
        )
