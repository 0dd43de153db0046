"""Repeated feed notices are rate limited."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sekai.live import BarEvent, Feed, FeedEvent, FeedNotice, SessionFolder, read_journal
from sekai.live.clock import Clock
from sekai.live.session import NOTICES_PER_WINDOW, NoticeRateLimiter
from tests.live.sessions import World, session, world

FLOOD = 5_000


class ManualClock(Clock):
    """Clock that is set by hand."""

    seconds = 0.0

    def monotonic_ns(self) -> int:
        return round(self.seconds * 1e9)


class Repeating(Feed):
    """Feed with thousands of equal notices after its first row."""

    def __init__(self, place: World, repeated: Callable[[BarEvent], FeedEvent]) -> None:
        super().__init__()
        rows = [event for event in asyncio.run(_all(place)) if isinstance(event, BarEvent)]
        self.history = place.data.rows(0, place.known)
        self._events: list[FeedEvent] = [rows[0], *[repeated(rows[1])] * FLOOD, *rows[1:]]

    async def __anext__(self) -> FeedEvent:
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)


def complaint(row: BarEvent) -> FeedNotice:
    return FeedNotice(exchange_time=row.exchange_time, kind="duplicate", detail="x")


def row_without_prices(row: BarEvent) -> BarEvent:
    bar = dataclasses.replace(row.bar, values=-np.asarray(row.bar.values))
    return dataclasses.replace(row, bar=bar)


async def _all(place: World) -> list[FeedEvent]:
    return [event async for event in place.feed(place.known + 5)]


def test_each_kind_has_room_again_after_a_while() -> None:
    clock = ManualClock()
    budget = NoticeRateLimiter(clock)

    rooms = [budget.take("late") for _ in range(NOTICES_PER_WINDOW + 2)]
    assert rooms == [*range(NOTICES_PER_WINDOW, 0, -1), 0, 0]
    assert budget.take("gap") == NOTICES_PER_WINDOW

    clock.seconds = 59.9
    assert budget.take("late") == 0
    clock.seconds = 60.0
    assert budget.take("late") == NOTICES_PER_WINDOW


def notices_in(folder: Path, kind: str) -> list[str]:
    records = read_journal(SessionFolder(folder).journal)
    notices = [record.fields for record in records if record.kind == "notice"]
    return [fields["detail"] for fields in notices if fields["notice"] == kind]


def test_of_a_flood_of_notices_few_are_written_down_and_rows_go_on(tmp_path: Path) -> None:
    place = world()

    status = session(place, tmp_path, feed=Repeating(place, complaint))

    told = notices_in(tmp_path, "duplicate")
    assert len(told) == NOTICES_PER_WINDOW
    assert told[-1] == "x; further notices of this kind are only counted"
    assert status.bars == 5


def test_of_a_flood_of_rows_that_are_none_few_are_written_down_and_rows_go_on(
    tmp_path: Path,
) -> None:
    place = world()

    status = session(place, tmp_path, feed=Repeating(place, row_without_prices))

    told = notices_in(tmp_path, "garbage")
    assert len(told) == NOTICES_PER_WINDOW
    assert "malformed row rejected" in told[0]
    assert status.bars == 5
