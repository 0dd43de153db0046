"""A feed that can be relied on: whatever is wrong is counted, told, mended or left out."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import deque
from collections.abc import Collection, Sequence
from heapq import merge
from typing import Literal

from sekai.live.events import FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed
from sekai.live.feeds.feed_rules import KINDS, FeedRules
from sekai.live.feeds.reading import Reading, count_received, end_task, is_done_before
from sekai.live.feeds.sanity import ClockCheck, PriceCheck, is_crossed
from sekai.live.feeds.stream_memory import StreamMemory, Verdict
from sekai.live.feeds.timed_feed import TimedFeed

__all__ = ["CheckedFeed"]

StreamKey = tuple[type[FeedEvent], str | None]
ALL: StreamKey = (FeedEvent, None)
Answer = tuple[list[FeedEvent], str]
"""What was found when it was asked for, and in words why not all of it was."""


class CheckedFeed(TimedFeed):
    """Checks another feed by rules, and asks it again for what was missed.

    Streams are told apart by symbol and kind of event. After a gap, a reconnect or an overflow
    `since` is asked, and what it gives is handed on once and in its place.
    """

    def __init__(
        self, feed: Feed, rules: FeedRules | None = None, begin: int | None = None
    ) -> None:
        """Take the feed.

        Args:
            feed: what to check.
            rules: what is expected of it.
            begin: a time in nanoseconds since 1970: what came after it is asked for before
                anything else, such as what came since the end of the history.
        """
        super().__init__()
        self.history = feed.history
        self.rules = rules or FeedRules()
        self._feed = feed
        self._reading = Reading(feed, self.health)
        self._streams: dict[StreamKey, StreamMemory] = {}
        fields, assets = ((), ()) if feed.history is None else (
            feed.history.fields, feed.history.assets
        )  # fmt: skip
        self._prices = PriceCheck(self.rules, fields, assets)
        self._clock = ClockCheck(self.rules)
        self._ready: deque[FeedEvent] = deque()
        self._held: FeedEvent | None = None
        self._asking: asyncio.Task[Answer] | None = None
        self._begin = begin
        self._latest = begin or 0
        self._silent_since: float | None = None
        self._was_connected = False

    async def open(self) -> None:
        """Open the feed."""
        await self._feed.open()

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event that is as it should be, or a notice of one that is not.

        See `TimedFeed`.
        """
        while (ready := self.take_ready()) is None:
            if self._begin is not None or self._held is not None:
                if not await self._catch_up(deadline):
                    return None
                continue
            event = await self._read(deadline)
            if event is None:
                return None
            self._take(event)
        return ready

    def take_ready(self) -> FeedEvent | None:
        """The next event if it is here already, and nothing has to be asked for."""
        while not self._ready:
            if self._begin is not None or self._held is not None:
                return None
            event = self._reading.take_ready()
            if event is None:
                return None
            self._take(event)
        return count_received(self.health, self._ready.popleft())

    async def subscribe(self, symbols: Collection[str]) -> None:
        """Ask the feed for more symbols."""
        await self._feed.subscribe(symbols)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """What the feed knows to have come after that time, as it gives it."""
        return await self._feed.since(exchange_time)

    async def close(self) -> None:
        """Close the feed, and give up what waits."""
        self._ready.clear()
        self._held = self._begin = None
        asking, self._asking = self._asking, None
        if asking is not None:
            await end_task(asking)
        await self._reading.close()

    async def _read(self, deadline: float | None) -> FeedEvent | None:
        """What comes before the deadline, or the notice that nothing has for too long."""
        limit = self.rules.stale_after
        if limit is None or self.health.is_stale:
            return await self._reading.next_before(deadline)
        if self._silent_since is None:
            self._silent_since = asyncio.get_running_loop().time()
        stale_at = self._silent_since + limit
        if deadline is not None and deadline < stale_at:
            return await self._reading.next_before(deadline)
        event = await self._reading.next_before(stale_at)
        if event is None:
            self.health.is_stale = True
            return _notice("stale", f"nothing has come for {limit} s")
        return event

    def _take(self, event: FeedEvent) -> None:
        """Deal with an event, or hold it until what was missed before it has been asked for."""
        if not isinstance(event, FeedNotice):
            self._silent_since = None
        memory, verdict = self._look(event)
        if self._asks_from(event, memory, verdict) is None:
            self._settle(event, memory, verdict)
        else:
            self._held = event

    async def _catch_up(self, deadline: float | None) -> bool:
        """Ask for what was missed, and deal with what waits for it; False if it takes longer."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask(self._start()))
        asking = self._asking
        if not await is_done_before(asking, deadline):
            return False
        # If it is not the same any more the feed was closed, and its end is read next.
        if asking is self._asking:
            self._asking = None
            if not asking.cancelled():
                self._take_answer(*asking.result())
        return True

    def _start(self) -> int:
        """The time from which to ask."""
        if self._held is None:
            start = self._begin
        else:
            start = self._asks_from(self._held, *self._look(self._held))
        assert start is not None, "it was held because of it"
        return start

    def _take_answer(self, found: Sequence[FeedEvent], failure: str) -> None:
        event, self._held, self._begin = self._held, None, None
        if event is None:
            self._tell_failure(failure)
            self._take_missed(found)
        else:
            self._settle(event, *self._look(event), found, failure, has_asked=True)

    def _look(self, event: FeedEvent) -> tuple[StreamMemory | None, Verdict]:
        """What an event is; nothing is taken note of yet."""
        if isinstance(event, FeedNotice):
            return None, "new"
        memory = self._streams.get((type(event), getattr(event, "symbol", None)))
        return memory, "new" if memory is None else memory.judge(event)

    def _asks_from(
        self, event: FeedEvent, memory: StreamMemory | None, verdict: Verdict
    ) -> int | None:
        """The time from which to ask again before an event is handed on; None for not at all."""
        if isinstance(event, FeedNotice):
            is_back = event.kind == "connected" and self._was_connected
            if (is_back or event.kind == "overflow") and self._latest:
                return self._latest - round(self.rules.overlap * 1e9)
            return None
        if memory is None:
            return None
        is_doubtful = memory.is_suspect and not memory.is_numbered and verdict == "new"
        if verdict in ("gap", "anew") or (is_doubtful and KINDS[type(event)] != "quote"):
            # One before: events of the same instant may have been missed. And not from a time
            # that a clock made up.
            likely = event.exchange_time - round(self.rules.overlap * 1e9)
            return min(memory.exchange_time, likely) - 1
        return None

    async def _ask(self, start: int) -> Answer:
        try:
            found = await asyncio.wait_for(self._feed.since(start), self.rules.backfill_timeout)
        except Exception as error:
            # A venue's web service that fails must not end a feed that goes on. It is told, and
            # not in its own words, which may hold secrets.
            return [], f", asking again failed: {type(error).__name__}"
        return [event for event in found if type(event) in KINDS], ""

    def _tell_failure(self, failure: str) -> None:
        if failure:
            self._ready.append(_notice("gap", f"what was missed is not known{failure}"))

    def _settle(
        self, event: FeedEvent, memory: StreamMemory | None, verdict: Verdict,
        found: Sequence[FeedEvent] = (), failure: str = "", *, has_asked: bool = False,
    ) -> None:  # fmt: skip
        """Deal with an event for which nothing more has to be asked."""
        if isinstance(event, FeedNotice):
            self._was_connected |= event.kind == "connected"
            self._ready.append(event)
            if has_asked:
                self._tell_failure(failure)
                self._take_missed(found)
                for stream in self._streams.values():
                    stream.is_suspect = True
            return
        if self.health.is_stale:
            self.health.is_stale = False
            self._ready.append(_notice("fresh", "events come again"))
        memory = memory or self._memory(event)
        if memory is None:
            return
        if verdict == "again" or verdict == "duplicate" or verdict == "late":
            memory.note_old(event)
            self._leave_out(verdict, event)
            return
        if verdict == "gap" or verdict == "anew":
            self._mend(event, memory, found, failure, is_anew=verdict == "anew")
        elif has_asked:
            self._tell_failure(failure)
            self._take_missed(found, _key(event), event)
        memory.is_suspect = False
        self._hand_on(event, memory)

    def _memory(self, event: FeedEvent) -> StreamMemory | None:
        key = _key(event)
        memory = self._streams.get(key)
        if memory is None and len(self._streams) >= self.rules.most_streams:
            self.health.garbage += 1
            detail = f"{_words(event)}: more than {self.rules.most_streams} symbols"
            self._ready.append(_notice("garbage", detail))
        elif memory is None:
            memory = self._streams[key] = StreamMemory(event, self.rules)
        return memory

    def _leave_out(self, verdict: Literal["again", "duplicate", "late"], event: FeedEvent) -> None:
        if verdict == "again":
            return
        if verdict == "duplicate":
            self.health.duplicates += 1
        else:
            self.health.late += 1
        self._ready.append(_notice(verdict, _words(event)))
        if not self.rules.leaves_out(verdict):
            self._ready.append(event)

    def _mend(
        self, event: FeedEvent, memory: StreamMemory, found: Sequence[FeedEvent], failure: str,
        *, is_anew: bool,
    ) -> None:  # fmt: skip
        last, last_time = memory.sequence, memory.exchange_time
        if is_anew:
            memory.begin_anew()
        key = _key(event)
        own = memory.missed([one for one in found if _key(one) == key], event)
        self.health.gaps += 1
        if is_anew:
            detail = f"the venue counts anew, from {event.sequence} after {last}"
        else:
            lost = _lost(event, own, last, last_time, memory)
            self.health.missing += lost
            detail = f"{lost + len(own)} missing, {len(own)} given again"
        self._ready.append(_notice("gap", f"{_words(event)}: {detail}{failure}"))
        self._note_holes(event, own, last, memory, is_anew)
        for one in own:
            self._hand_on(one, memory, is_asked_for=True)

    def _note_holes(
        self, event: FeedEvent, own: Sequence[FeedEvent], last: int | None, memory: StreamMemory,
        is_anew: bool,
    ) -> None:  # fmt: skip
        if last is None or is_anew:
            return
        for one in (*own, event):
            if one.sequence is not None:
                if one.sequence > last + 1:
                    memory.note_missing(range(last + 1, one.sequence))
                last = one.sequence

    def _take_missed(
        self, found: Sequence[FeedEvent], only: StreamKey = ALL, before: FeedEvent | None = None
    ) -> None:
        """Hand on what was asked for and is new, stream by stream in order, merged by time."""
        streams: dict[StreamKey, list[FeedEvent]] = {}
        for event in found:
            if only in (ALL, _key(event)):
                streams.setdefault(_key(event), []).append(event)
        new: list[list[FeedEvent]] = []
        for events in streams.values():
            stream = self._memory(events[0])
            if stream is not None:
                missed = stream.missed(events, before)
                new.append(stream.up_to_hole(missed) if before is None else missed)
        for event in merge(*new, key=lambda one: one.exchange_time):
            self._hand_on(event, self._streams[_key(event)], is_asked_for=True)

    def _hand_on(
        self, event: FeedEvent, memory: StreamMemory, *, is_asked_for: bool = False
    ) -> None:
        before = memory.exchange_time
        memory.remember(event, is_asked_for=is_asked_for)
        if is_asked_for:
            event = dataclasses.replace(event, is_late=True)
        if KINDS[type(event)] != "quote":
            # Quotes of some venues carry our clock's time, which may be ahead of the venue's.
            self._latest = event.exchange_time
        problems: list[tuple[NoticeKind, str]] = []
        # What was asked for was read now and happened before: no clock can be told by it.
        jump = None if is_asked_for else self._clock.jump(event, before)
        if jump is not None:
            self.health.clock_jumps += 1
            problems.append(("clock_jump", jump))
        if is_crossed(event):
            self.health.crossed += 1
            problems.append(("crossed", _words(event)))
        else:
            outlier = self._prices.outlier(event)
            if outlier is not None:
                self.health.outliers += 1
                problems.append(("outlier", outlier))
        if not problems:
            self._ready.append(event)
            return
        self._ready.extend(_notice(kind, detail) for kind, detail in problems)
        if not any(self.rules.leaves_out(kind) for kind, _ in problems):
            self._ready.append(event)


def _lost(
    event: FeedEvent, own: Sequence[FeedEvent], last: int | None, last_time: int,
    memory: StreamMemory,
) -> int:  # fmt: skip
    """How many were counted, or fit in between, and did not come."""
    if event.sequence is not None and last is not None:
        return event.sequence - last - 1 - len(own)
    begin = getattr(event, "begin", None)
    period = event.exchange_time - begin if begin is not None else memory.period
    if period is None:
        return 0
    return max(0, round((event.exchange_time - last_time) / period) - 1 - len(own))


def _notice(kind: NoticeKind, detail: str) -> FeedNotice:
    return FeedNotice(exchange_time=time.time_ns(), kind=kind, detail=detail)


def _key(event: FeedEvent) -> StreamKey:
    return type(event), getattr(event, "symbol", None)


def _words(event: FeedEvent) -> str:
    name = getattr(event, "symbol", "all assets")
    number = "" if event.sequence is None else f" number {event.sequence}"
    return f"{KINDS[type(event)]} of {name}{number}"
