"""CheckedFeed: detects gaps, duplicates, late events, outliers and stale feeds, and backfills."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Sequence
from heapq import merge
from typing import Literal, NamedTuple

from sekai.live.events import BarEvent, FeedEvent, FeedNotice, NoticeKind
from sekai.live.feed import Feed
from sekai.live.feeds.feed_rules import (
    KINDS,
    AheadCheck,
    ClockCheck,
    EventStatus,
    FeedRules,
    PriceCheck,
    SequenceTracker,
    is_crossed,
)
from sekai.live.feeds.timed_feed import (
    FeedWrapper,
    count_received,
    end_task,
    is_done_before,
    notice,
)

__all__ = ["CheckedFeed"]

StreamKey = tuple[type[FeedEvent], str | None]
ALL_STREAMS: StreamKey = (FeedEvent, None)


class Backfill(NamedTuple):
    """Events of `since`, and the failure message if it failed."""

    events: list[FeedEvent]
    failure: str


class CheckedFeed(FeedWrapper):
    """Feed that checks another feed by rules and backfills missing events.

    Streams are separated by symbol and kind of event. After a gap, a reconnect or an overflow
    `since` of the feed is called, and its events are passed on once and in order.

    Args:
        feed: the feed to check.
        rules: rules of the checks.
        begin: time in nanoseconds since 1970, such as the end of the history: events after it are
            backfilled before anything else.
    """

    def __init__(
        self, feed: Feed, rules: FeedRules | None = None, begin: int | None = None
    ) -> None:
        super().__init__(feed, feed.history)
        self.rules = rules or FeedRules()
        self._streams: dict[StreamKey, SequenceTracker] = {}
        history = feed.history
        fields, assets = ((), ()) if history is None else (history.fields, history.assets)
        self._prices = PriceCheck(self.rules, fields, assets)
        self._clock = ClockCheck(self.rules)
        limit = self.rules.ahead_limit
        self._ahead = None if limit is None else AheadCheck(*[round(limit * 1e9)] * 2)
        # Rows may be stamped with the end of their interval before it.
        self._row_margin = round((self.rules.bar_seconds or 0.0) * 1e9)
        if history is not None:
            self._row_margin = max(self._row_margin, history.frequency.nanoseconds)
        self._ready: deque[FeedEvent] = deque()
        self._held: FeedEvent | None = None
        self._backfill: asyncio.Task[Backfill] | None = None
        self._begin = begin
        self._latest = begin or 0
        self._silent_since: float | None = None
        self._was_connected = False

    async def next_before(self, deadline: float | None) -> FeedEvent | None:
        """Wait for the next event that passes the checks, or a notice; see `TimedFeed`."""
        while (ready := self.take_ready()) is None:
            if self._begin is not None or self._held is not None:
                if not await self._wait_for_backfill(deadline):
                    return None
                continue
            event = await self._read(deadline)
            if event is None:
                return None
            self._take(event)
        return ready

    def take_ready(self) -> FeedEvent | None:
        """Return the next event if it is available without waiting or backfilling, else None."""
        while not self._ready:
            if self._begin is not None or self._held is not None:
                return None
            event = self._reader.take_ready()
            if event is None:
                return None
            self._take(event)
        return count_received(self.health, self._ready.popleft())

    async def close(self) -> None:
        """Close the feed and discard waiting events."""
        self._ready.clear()
        self._held = self._begin = None
        task, self._backfill = self._backfill, None
        if task is not None:
            await end_task(task)
        await super().close()

    async def _read(self, deadline: float | None) -> FeedEvent | None:
        """Read the next event, or return the notice that the feed is stale."""
        limit = self.rules.stale_after
        if limit is None or self.health.is_stale:
            return await self._reader.next_before(deadline)
        if self._silent_since is None:
            self._silent_since = asyncio.get_running_loop().time()
        stale_at = self._silent_since + limit
        if deadline is not None and deadline < stale_at:
            return await self._reader.next_before(deadline)
        event = await self._reader.next_before(stale_at)
        if event is None:
            self.health.is_stale = True
            return notice("stale", f"no event for {limit} s")
        return event

    def _take(self, event: FeedEvent) -> None:
        """Process an event, or hold it until the events missing before it are backfilled."""
        if not isinstance(event, FeedNotice):
            self._silent_since = None
            if self._is_ahead(event):
                return
        stream, status = self._classify(event)
        if self._backfill_start(event, stream, status) is None:
            self._process(event, stream, status)
        else:
            self._held = event

    def _is_ahead(self, event: FeedEvent) -> bool:
        """Return True for an event of the future: it would make all others late."""
        if self._ahead is None:
            return False
        problem = self._ahead.problem(event.exchange_time, event.receive_time, self._margin(event))
        if problem is None:
            return False
        self.health.clock_jumps += 1
        self._ready.append(notice("clock_jump", f"{_description(event)}: {problem}; left out"))
        return True

    def _margin(self, event: FeedEvent) -> int:
        return self._row_margin if isinstance(event, BarEvent) else 0

    async def _wait_for_backfill(self, deadline: float | None) -> bool:
        """Backfill and process the held event; False if the deadline came first."""
        if self._backfill is None:
            self._backfill = asyncio.ensure_future(self._request(self._start()))
        task = self._backfill
        if not await is_done_before(task, deadline):
            return False
        # Another task, or none, means that the feed was closed: its end is read next.
        if task is self._backfill:
            self._backfill = None
            if not task.cancelled():
                self._take_backfill(task.result())
        return True

    def _start(self) -> int:
        """Time from which to backfill."""
        if self._held is None:
            start = self._begin
        else:
            start = self._backfill_start(self._held, *self._classify(self._held))
        assert start is not None, "an event is held because of its backfill"
        return start

    def _take_backfill(self, backfill: Backfill) -> None:
        event, self._held, self._begin = self._held, None, None
        if event is None:
            self._take_missed(backfill)
        else:
            self._process(event, *self._classify(event), backfill)

    def _classify(self, event: FeedEvent) -> tuple[SequenceTracker | None, EventStatus]:
        if isinstance(event, FeedNotice):
            return None, "new"
        stream = self._streams.get(_key(event))
        return stream, "new" if stream is None else stream.classify(event)

    def _backfill_start(
        self, event: FeedEvent, stream: SequenceTracker | None, status: EventStatus
    ) -> int | None:
        """Time from which to backfill before an event is passed on; None for no backfill."""
        if isinstance(event, FeedNotice):
            is_back = event.kind == "connected" and self._was_connected
            if (is_back or event.kind == "overflow") and self._latest:
                return self._latest - round(self.rules.overlap * 1e9)
            return None
        if stream is None:
            return None
        is_doubtful = stream.is_suspect and not stream.is_numbered and status == "new"
        if status in ("gap", "restart") or (is_doubtful and KINDS[type(event)] != "quote"):
            # One nanosecond before: events of the same timestamp may be missing. Bounded by the
            # time of this event, because that of the last one may come from a wrong clock.
            likely = event.exchange_time - round(self.rules.overlap * 1e9)
            return min(stream.exchange_time, likely) - 1
        return None

    async def _request(self, start: int) -> Backfill:
        try:
            events = await asyncio.wait_for(self._feed.since(start), self.rules.backfill_timeout)
        except Exception as error:
            # A failing backfill must not end the feed. The error's message is not shown: it may
            # hold secrets.
            return Backfill([], f", backfill failed: {type(error).__name__}")
        return Backfill([event for event in events if self._is_usable(event)], "")

    def _is_usable(self, event: FeedEvent) -> bool:
        if type(event) not in KINDS:
            return False
        ahead, margin = self._ahead, self._margin(event)
        return ahead is None or not ahead.exceeds(event.exchange_time, event.receive_time, margin)

    def _process(
        self,
        event: FeedEvent,
        stream: SequenceTracker | None,
        status: EventStatus,
        backfill: Backfill | None = None,
    ) -> None:
        """Process an event that needs no backfill, or whose backfill is done."""
        if isinstance(event, FeedNotice):
            self._was_connected |= event.kind == "connected"
            self._ready.append(event)
            if backfill is not None:
                self._take_missed(backfill)
                for tracker in self._streams.values():
                    tracker.is_suspect = True
            return
        if self.health.is_stale:
            self.health.is_stale = False
            self._ready.append(notice("fresh", "events arrive again"))
        stream = stream or self._stream(event)
        if stream is None:
            return
        if status == "backfilled" or status == "duplicate" or status == "late":
            stream.add_old(event)
            self._leave_out(status, event)
            return
        if status == "gap" or status == "restart":
            filled = backfill or Backfill([], "")
            self._fill_gap(event, stream, filled, is_restart=status == "restart")
        elif backfill is not None:
            self._take_missed(backfill, _key(event), event)
        stream.is_suspect = False
        self._pass_on(event, stream)

    def _stream(self, event: FeedEvent) -> SequenceTracker | None:
        key = _key(event)
        stream = self._streams.get(key)
        if stream is None and len(self._streams) >= self.rules.most_streams:
            self.health.garbage += 1
            detail = f"{_description(event)}: more than {self.rules.most_streams} symbols"
            self._ready.append(notice("garbage", detail))
        elif stream is None:
            stream = self._streams[key] = SequenceTracker(event, self.rules)
        return stream

    def _leave_out(
        self, status: Literal["backfilled", "duplicate", "late"], event: FeedEvent
    ) -> None:
        if status == "backfilled":
            return
        if status == "duplicate":
            self.health.duplicates += 1
        else:
            self.health.late += 1
        self._ready.append(notice(status, _description(event)))
        if not self.rules.leaves_out(status):
            self._ready.append(event)

    def _fill_gap(
        self, event: FeedEvent, stream: SequenceTracker, backfill: Backfill, *, is_restart: bool
    ) -> None:
        last, last_time = stream.sequence, stream.exchange_time
        if is_restart:
            stream.restart()
        key = _key(event)
        filled = stream.unseen([each for each in backfill.events if _key(each) == key], event)
        self.health.gaps += 1
        if is_restart:
            detail = f"the venue restarted its sequence at {event.sequence} after {last}"
        else:
            missing = _missing(event, filled, last, last_time, stream)
            self.health.missing += missing
            detail = f"{missing + len(filled)} missing, {len(filled)} backfilled"
        self._ready.append(notice("gap", f"{_description(event)}: {detail}{backfill.failure}"))
        if not is_restart:
            _add_missing([*filled, event], last, stream)
        for each in filled:
            self._pass_on(each, stream, is_backfilled=True)

    def _take_missed(
        self, backfill: Backfill, only: StreamKey = ALL_STREAMS, before: FeedEvent | None = None
    ) -> None:
        """Pass on backfilled events that are new, each stream in order, merged by time."""
        if backfill.failure:
            self._ready.append(notice("gap", f"missing events are unknown{backfill.failure}"))
        streams: dict[StreamKey, list[FeedEvent]] = {}
        for event in backfill.events:
            if only in (ALL_STREAMS, _key(event)):
                streams.setdefault(_key(event), []).append(event)
        new: list[list[FeedEvent]] = []
        for batch in streams.values():
            stream = self._stream(batch[0])
            if stream is not None:
                missed = stream.unseen(batch, before)
                new.append(stream.up_to_gap(missed) if before is None else missed)
        for event in merge(*new, key=lambda each: each.exchange_time):
            self._pass_on(event, self._streams[_key(event)], is_backfilled=True)

    def _pass_on(
        self, event: FeedEvent, stream: SequenceTracker, *, is_backfilled: bool = False
    ) -> None:
        previous_time = stream.exchange_time
        stream.add(event, is_backfilled=is_backfilled)
        if is_backfilled:
            event = dataclasses.replace(event, is_late=True)
        if KINDS[type(event)] != "quote":
            # Quotes of some venues carry the local time, which may be ahead of the venue's.
            self._latest = event.exchange_time
        problems: list[tuple[NoticeKind, str]] = []
        # The receive time of a backfilled event says nothing about clocks.
        jump = None if is_backfilled else self._clock.jump(event, previous_time)
        if jump is not None:
            self.health.clock_jumps += 1
            problems.append(("clock_jump", jump))
        if is_crossed(event):
            self.health.crossed += 1
            problems.append(("crossed", _description(event)))
        else:
            outlier = self._prices.outlier(event)
            if outlier is not None:
                self.health.outliers += 1
                problems.append(("outlier", outlier))
        self._ready.extend(notice(kind, detail) for kind, detail in problems)
        if not any(self.rules.leaves_out(kind) for kind, _ in problems):
            self._ready.append(event)


def _missing(
    event: FeedEvent,
    filled: Sequence[FeedEvent],
    last: int | None,
    last_time: int,
    stream: SequenceTracker,
) -> int:
    """Number of events that are missing by sequence, or by time, after the backfill."""
    if event.sequence is not None and last is not None:
        return event.sequence - last - 1 - len(filled)
    begin = getattr(event, "begin", None)
    period = event.exchange_time - begin if begin is not None else stream.period
    if period is None:
        return 0
    return max(0, round((event.exchange_time - last_time) / period) - 1 - len(filled))


def _add_missing(events: Sequence[FeedEvent], last: int | None, stream: SequenceTracker) -> None:
    if last is None:
        return
    for event in events:
        if event.sequence is not None:
            if event.sequence > last + 1:
                stream.add_missing(range(last + 1, event.sequence))
            last = event.sequence


def _key(event: FeedEvent) -> StreamKey:
    return type(event), getattr(event, "symbol", None)


def _description(event: FeedEvent) -> str:
    name = getattr(event, "symbol", "all assets")
    number = "" if event.sequence is None else f" number {event.sequence}"
    return f"{KINDS[type(event)]} of {name}{number}"
