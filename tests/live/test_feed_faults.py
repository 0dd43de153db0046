"""Feed faults cost at most a decision: no row is lost and accounts stay right."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sekai.live import (
    BarEvent,
    CheckedFeed,
    Feed,
    FeedEvent,
    FeedNotice,
    FeedRules,
    SessionFolder,
    check_parity,
    read_journal,
)
from tests.live.sessions import World, session, world

Fault = Callable[[list[BarEvent]], list[FeedEvent | float]]
"""What a venue sends instead; numbers are seconds of silence."""


class Venue(Feed):
    """Venue that injects a fault into its rows, and can backfill."""

    def __init__(
        self, place: World, rows: Sequence[BarEvent], sent: Sequence[FeedEvent | float]
    ) -> None:
        super().__init__()
        self.history = place.data.rows(0, place.known)
        self._rows, self._sent, self._at = rows, sent, 0
        self._reached = 0

    async def __anext__(self) -> FeedEvent:
        while self._at < len(self._sent):
            one = self._sent[self._at]
            if not isinstance(one, float):
                self._at += 1
                self._reached = max(self._reached, one.exchange_time)
                return one
            await asyncio.sleep(one)
            self._at += 1
        raise StopAsyncIteration

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        known = [row for row in self._rows if row.exchange_time <= self._reached]
        return [row for row in known if row.exchange_time > exchange_time]


def drop(rows: list[BarEvent]) -> list[FeedEvent | float]:
    return [row for number, row in enumerate(rows) if number % 7 != 2]


def duplicate(rows: list[BarEvent]) -> list[FeedEvent | float]:
    return [row for row in rows for _ in range(2)]


def reorder(rows: list[BarEvent]) -> list[FeedEvent | float]:
    changed: list[FeedEvent | float] = list(rows)
    for place in range(5, len(rows) - 1, 6):
        changed[place], changed[place + 1] = changed[place + 1], changed[place]
    return changed


def stall(rows: list[BarEvent]) -> list[FeedEvent | float]:
    return [*rows[:20], 0.3, *rows[20:]]


def garbage(rows: list[BarEvent]) -> list[FeedEvent | float]:
    words = [
        FeedNotice(exchange_time=row.exchange_time, kind="garbage", detail="<script>")
        for row in rows
    ]
    return [one for pair in zip(rows, words, strict=True) for one in pair]


def jump(rows: list[BarEvent]) -> list[FeedEvent | float]:
    """Clock jump of an hour in one row."""
    late = dataclasses.replace(rows[10], receive_time=rows[10].receive_time + 3_600_000_000_000)
    return [*rows[:10], late, *rows[11:]]


def outlier(rows: list[BarEvent]) -> list[FeedEvent | float]:
    """Row with prices too high by a factor of 1e9."""
    bar = rows[10].bar
    wrong = dataclasses.replace(
        rows[10], bar=dataclasses.replace(bar, values=np.asarray(bar.values) * 1e9)
    )
    return [*rows[:10], wrong, *rows[11:]]


@pytest.mark.parametrize(
    ("fault", "notice", "rows_wanted"),
    [
        (drop, "gap", 60),
        (duplicate, "duplicate", 60),
        (reorder, "gap", 60),
        (stall, "stale", 60),
        (garbage, "garbage", 60),
        (jump, "clock_jump", 60),
        (outlier, "outlier", 59),
    ],
)
def test_a_fault_of_the_feed_is_told_and_loses_nothing(
    tmp_path: Path, fault: Fault, notice: str, rows_wanted: int
) -> None:
    place = world()
    rows = asyncio.run(_all(place.feed()))
    rules = FeedRules(stale_after=0.1, clock_limit=None if fault is not jump else 1e8)
    feed = CheckedFeed(Venue(place, rows, fault(rows)), rules)

    status = session(place, tmp_path, feed=feed)

    records = list(read_journal(SessionFolder(tmp_path).journal))
    times = [record.fields["time"] for record in records if record.kind == "bar"]
    told = [record.fields["notice"] for record in records if record.kind == "notice"]
    assert times == sorted(set(times))
    assert len(times) == rows_wanted
    assert notice in told
    assert check_parity(tmp_path, place.env()).is_whole
    assert status.state == "stopped"


def test_nothing_is_decided_on_rows_that_were_missed(tmp_path: Path) -> None:
    place = world()
    rows = asyncio.run(_all(place.feed()))
    sent = drop(rows)

    status = session(place, tmp_path, feed=CheckedFeed(Venue(place, rows, sent), FeedRules()))

    assert status.bars == len(rows)
    assert status.decisions == len(sent)


async def _all(feed: Any) -> list[BarEvent]:
    return [event async for event in feed if isinstance(event, BarEvent)]
