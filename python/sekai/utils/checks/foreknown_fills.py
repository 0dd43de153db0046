"""Checks that orders are not executed at prices that were known when they were given.

Filling at the close that the agent has just seen is no look into the future, so changing the
future does not show it. What shows it is a fill that the future cannot change and the last bar
before the decision can. A resting order is told apart by whether it is filled at all, which the
future decides.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Any

import numpy as np

from sekai.utils.checks.difference import first_difference
from sekai.utils.checks.moments import Moment
from sekai.utils.checks.report import CheckStopped, Report
from sekai.utils.checks.worlds import Refused, Worlds

__all__ = ["check_fills", "fills_of"]

MAX_FILLS = 8
"""How many fills are looked at in one episode."""

MIN_FILLS = 2
"""How many must look foreknown: one may be by chance."""


def check_fills(
    worlds: Worlds, report: Report, moments: list[Moment], fill_keys: Collection[str]
) -> None:
    """Report fills that are settled by data up to the decision."""
    suspects = []
    for number in _filled(moments, fill_keys)[:MAX_FILLS]:
        decision = moments[number - 1]
        if _is_changed(worlds, moments, number, decision.time, fill_keys):
            return
        if _is_changed(worlds, moments, number, moments[number - 2].time, fill_keys):
            suspects.append(number)
    if len(suspects) >= MIN_FILLS:
        fill, decision = moments[suspects[0]], moments[suspects[0] - 1]
        report.error(
            "fill",
            f"executed price at {fill.event.label} was known when the decision was made: "
            f"{fills_of(fill, fill_keys)} follows from data up to time {decision.time}, which the "
            f"agent had seen; fill on later data, or ask for it with allow_known_fills=True",
        )


def fills_of(moment: Moment, fill_keys: Collection[str]) -> dict[str, Any]:
    """What `info` says about executed prices."""
    info = moment.event.values["info"]
    infos = [info, *(part for part in info.values() if isinstance(part, dict))]
    return {key: part[key] for part in infos for key in fill_keys if key in part}


def _filled(moments: list[Moment], fill_keys: Collection[str]) -> list[int]:
    """The numbers of the moments with a fill, and with two decisions before it."""
    return [
        number
        for number, moment in enumerate(moments)
        if number >= 2 and any(map(_is_fill, fills_of(moment, fill_keys).values()))
    ]


def _is_fill(value: Any) -> bool:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        # Records of some type of their own: there is a fill if there is one in them.
        return bool(value)
    return bool((np.isfinite(numbers) & (numbers != 0)).any())


def _is_changed(
    worlds: Worlds, moments: list[Moment], number: int, time: Any, fill_keys: Collection[str]
) -> bool:
    """Whether another future after `time` leads to another fill at `number`."""
    wanted = fills_of(moments[number], fill_keys)
    for kind in worlds.kinds:
        try:
            with closing(worlds.changed(moments[: number + 1], time, kind)) as repeats:
                last = list(repeats)[-1]
        except (Refused, CheckStopped):
            continue
        if first_difference(wanted, fills_of(last, fill_keys)) is not None:
            return True
    return False
