"""What has come of one kind of event of one symbol, and whether another one is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

from sekai.live.events import BarEvent, CandleEvent, FeedEvent, QuoteEvent, TradeEvent
from sekai.live.feeds.feed_rules import KINDS, FeedRules

__all__ = ["StreamMemory", "Verdict"]

Verdict = Literal["new", "gap", "again", "duplicate", "late", "anew"]
RANGES_KEPT = 64
CONTENTS_KEPT = 10_000
"""Events of one instant, or asked for, that are told from copies of them by what they say."""

LATE_BELIEVED = 100
"""Late events in a row, in order among themselves, after which what came before them was wrong:
its time, or its number."""


class StreamMemory:
    """The last of a stream: enough to tell new from old, and no more.

    Events with a `sequence` are told apart by it; others by their time and what they say. Trades
    that have neither `sequence` nor `trade_id` may be twins, and are never taken for duplicates.
    """

    def __init__(self, event: FeedEvent, rules: FeedRules) -> None:
        """Begin before the first event, which says what kind of stream it is."""
        self.is_contiguous = KINDS[type(event)] in rules.contiguous
        self.period = round(rules.bar_seconds * 1e9) if rules.bar_seconds else None
        self.sequence: int | None = None
        self.exchange_time = 0
        self.is_suspect = False
        """Whether some may have been missed without a trace, since the feed was interrupted."""
        self._is_empty = True
        self._latest: Counter[Hashable] = Counter()
        self._given: dict[tuple[int, Hashable], int] = {}
        self._missing: list[range] = []
        self._restart: int | None = None
        self._late_run = 0
        self._late_time = 0

    @property
    def is_numbered(self) -> bool:
        """Whether nothing can be missed without a trace."""
        return self.is_contiguous and self.sequence is not None

    def judge(self, event: FeedEvent) -> Verdict:
        """What an event is, as it comes in; `again` is a copy of one that was asked for."""
        if self._is_empty:
            return "new"
        if self._given and _copy_key(event) in self._given:
            return "again"
        if event.sequence is not None and self.sequence is not None:
            return self._by_number(event, event.sequence, self.sequence)
        return self._by_content(event)

    def missed(self, found: Sequence[FeedEvent], before: FeedEvent | None) -> list[FeedEvent]:
        """Of events that were asked for: those that are new and belong before another one."""
        counts = self.sequence is not None
        last, seen = self.sequence, Counter(self._latest)
        new: list[FeedEvent] = []
        for event in sorted(found, key=_number_first if counts else _time_first):
            if before is not None and not _precedes(event, before, counts):
                continue
            if event.sequence is not None and last is not None and counts:
                if event.sequence <= last:
                    continue
                last = event.sequence
            elif self._has_come(event, seen):
                continue
            new.append(event)
        return new

    def up_to_hole(self, events: Sequence[FeedEvent]) -> list[FeedEvent]:
        """Those that follow each other by number: what is beyond a hole may come by itself."""
        last = self.sequence
        new: list[FeedEvent] = []
        for event in events:
            if self.is_contiguous and last is not None and event.sequence not in (None, last + 1):
                break
            last = event.sequence
            new.append(event)
        return new

    def _has_come(self, event: FeedEvent, seen: Counter[Hashable]) -> bool:
        if event.exchange_time != self.exchange_time or self._is_empty:
            return event.exchange_time < self.exchange_time
        if event.sequence is not None:
            # The venue counts anew: of this instant, what came has other numbers.
            return True
        # Twins are matched one by one.
        seen[_identity(event)] -= 1
        return seen[_identity(event)] >= 0

    def remember(self, event: FeedEvent, *, is_asked_for: bool = False) -> None:
        """Take note of an event that is new."""
        is_instant = not self._is_empty and event.exchange_time == self.exchange_time
        if not is_instant or len(self._latest) >= CONTENTS_KEPT:
            self._latest.clear()
        self._late_run = 0
        self._is_empty = False
        self.exchange_time = event.exchange_time
        self.sequence = event.sequence if event.sequence is not None else self.sequence
        self._restart = None
        if event.sequence is None:
            self._latest[_identity(event)] += 1
        if is_asked_for:
            key = _copy_key(event)
            self._given[key] = self._given.get(key, 0) + 1
            if len(self._given) > CONTENTS_KEPT:
                del self._given[next(iter(self._given))]

    def note_old(self, event: FeedEvent) -> None:
        """Take note of an event that is not new."""
        key = _copy_key(event)
        left = self._given.pop(key, 0) - 1
        if left > 0:
            self._given[key] = left
        if event.sequence is not None:
            rises = self._restart is not None and event.sequence > self._restart
            self._late_run = self._late_run + 1 if rises else 1
            self._restart = event.sequence
            return
        if event.exchange_time < self.exchange_time:
            self._late_run = self._late_run + 1 if self._is_in_late_order(event) else 1
            self._late_time = event.exchange_time

    def _is_in_late_order(self, event: FeedEvent) -> bool:
        return self._late_run > 0 and event.exchange_time >= self._late_time

    def note_missing(self, numbers: range) -> None:
        """Take note of numbers that have not come: they are late if they do."""
        self._missing = [*self._missing[-RANGES_KEPT + 1 :], numbers]

    def begin_anew(self) -> None:
        """Forget all numbers: the venue has begun to count again."""
        self.sequence = None
        self._missing.clear()

    def _by_number(self, event: FeedEvent, found: int, last: int) -> Verdict:
        if found > last:
            return "gap" if self.is_contiguous and found > last + 1 else "new"
        is_missing = any(found in numbers for numbers in self._missing)
        if self._is_anew(event, found, last, is_missing):
            return "anew"
        if is_missing:
            return "late"
        return "duplicate" if self.is_contiguous or found == last else "late"

    def _is_anew(self, event: FeedEvent, found: int, last: int, is_missing: bool) -> bool:
        """Whether the venue counts from the beginning: a lower number at a later time.

        After an interruption that is enough, unless the number is one that is missing; otherwise
        the next number has to follow, or many that rise. The last number may also have been a
        mistake of the venue, and then all that it seemed to leave out comes.
        """
        if found >= last or event.exchange_time <= self.exchange_time:
            return False
        if self.is_suspect and not is_missing:
            return True
        if self._restart is None or found <= self._restart:
            return False
        return found == self._restart + 1 or self._late_run >= LATE_BELIEVED

    def _by_content(self, event: FeedEvent) -> Verdict:
        name = _identity(event)
        if event.exchange_time < self.exchange_time:
            is_believed = self._late_run >= LATE_BELIEVED and self._is_in_late_order(event)
            return "new" if is_believed else "late"
        if event.exchange_time == self.exchange_time:
            is_twin = isinstance(event, TradeEvent) and event.trade_id is None
            return "duplicate" if self._latest[name] and not is_twin else "new"
        return "gap" if self._has_gap(event) else "new"

    def _has_gap(self, event: FeedEvent) -> bool:
        if isinstance(event, BarEvent):
            distance = event.exchange_time - self.exchange_time
            return self.period is not None and distance > 1.5 * self.period
        if isinstance(event, CandleEvent):
            return self.is_contiguous and event.begin > self.exchange_time
        return False


def _copy_key(event: FeedEvent) -> tuple[int, Hashable]:
    number = event.sequence
    return event.exchange_time, _identity(event) if number is None else ("number", number)


def _time_first(event: FeedEvent) -> tuple[int, int]:
    return event.exchange_time, event.sequence or 0


def _number_first(event: FeedEvent) -> tuple[int, int]:
    return event.sequence or 0, event.exchange_time


def _precedes(event: FeedEvent, other: FeedEvent, counts: bool) -> bool:
    if event.sequence is not None and other.sequence is not None:
        key = _number_first if counts else _time_first
        return key(event) < key(other)
    if event.exchange_time == other.exchange_time:
        return _identity(event) != _identity(other)
    return event.exchange_time < other.exchange_time


def _identity(event: FeedEvent) -> Hashable:
    if isinstance(event, TradeEvent):
        if event.trade_id is not None:
            return event.trade_id
        return (event.price, event.size, event.is_buy)
    if isinstance(event, QuoteEvent):
        return (event.bid, event.bid_size, event.ask, event.ask_size)
    return event.exchange_time
