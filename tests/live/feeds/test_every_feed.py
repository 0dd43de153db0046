"""Laws of every feed: cancellation, closing at any time, and no leaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sekai.data import BarFeed
from sekai.live.feed import Feed
from sekai.live.feeds import (
    BarsFromCandles,
    BarsFromTrades,
    Buffered,
    CheckedFeed,
    EventRecorder,
    FeedRules,
    FolderFeed,
    QueueFeed,
    RecordedFeed,
    ReplayFeed,
)
from tests.live.feeds.makers import collect, panel, run, trade
from tests.live.feeds.venue import Venue


def recorded(folder: Path, **options: float) -> RecordedFeed:
    path = folder / "events.jsonl"
    if not path.exists():
        with EventRecorder(path) as recorder:
            for number in range(1, 500):
                recorder.record(trade(number))
    return RecordedFeed(path, speed=options.get("speed"))


# Each of them has nothing to give for a long time once it has given its first event.
WAITING: dict[str, Callable[[Path], Feed]] = {
    "replay": lambda _: ReplayFeed(panel(), 1, speed=1e-3),
    "recorded": lambda folder: recorded(folder, speed=1e-3),
    "folder": lambda folder: FolderFeed(folder, panel(), poll_seconds=0.002),
    "queue": lambda _: QueueFeed(),
    "buffered": lambda _: Buffered(QueueFeed()),
    "checked": lambda _: CheckedFeed(QueueFeed(), FeedRules(stale_after=1000.0)),
    "bars": lambda _: BarsFromTrades(QueueFeed(), ["AAA"], 1.0),
    "candles": lambda _: BarsFromCandles(QueueFeed(), ["AAA"], 60.0),
    "all": lambda _: Buffered(BarsFromTrades(CheckedFeed(Buffered(QueueFeed())), ["AAA"], 1.0)),
}
NAMES = [*WAITING, "websocket"]


@asynccontextmanager
async def feed_of(name: str, folder: Path) -> AsyncIterator[Feed]:
    if name != "websocket":
        yield WAITING[name](folder)
        return
    async with Venue() as venue:
        yield venue.feed()


@pytest.mark.parametrize("name", NAMES)
def test_a_feed_that_was_closed_is_at_its_end(name: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with feed_of(name, tmp_path) as feed:
            assert isinstance(feed, BarFeed)
            await feed.close()
            await feed.close()
            for _ in range(2):
                with pytest.raises(StopAsyncIteration):
                    await feed.__anext__()
            assert feed.take_ready() is None
            await feed.close()

    run(work())


@pytest.mark.parametrize("name", NAMES)
def test_one_who_waits_for_a_feed_that_is_closed_comes_to_its_end(
    name: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with feed_of(name, tmp_path) as feed:
            waiting = asyncio.ensure_future(collect(feed))
            await asyncio.sleep(0.03)
            assert not waiting.done()
            await feed.close()
            if isinstance(feed, (ReplayFeed, RecordedFeed)):
                # They sleep until the next event is due, and may be left to it.
                waiting.cancel()
                await asyncio.wait({waiting})
            else:
                await asyncio.wait_for(waiting, 20.0)

    run(work())


@pytest.mark.parametrize("name", NAMES)
def test_waits_that_are_cancelled_leave_nothing_running(name: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with feed_of(name, tmp_path) as feed:
            for delay in (0, 0, 0.001, 0.01):
                waiting = asyncio.ensure_future(collect(feed))
                await asyncio.sleep(delay)
                waiting.cancel()
                await asyncio.wait({waiting})
            await feed.close()

    run(work())


@pytest.mark.parametrize("wrap", [None, CheckedFeed, Buffered])
def test_a_recording_that_is_read_at_once_lets_others_have_their_turn(
    wrap: Callable[[Feed], Feed] | None, tmp_path: Path
) -> None:
    async def work() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        feed: Feed = recorded(tmp_path)
        feed = feed if wrap is None else wrap(feed)
        task = asyncio.create_task(other())
        found = await collect(feed)
        assert [event.sequence for event in found] == list(range(1, 500))
        task.cancel()
        await asyncio.wait({task})
        await feed.close()
        return turns

    assert run(work()) >= 7
