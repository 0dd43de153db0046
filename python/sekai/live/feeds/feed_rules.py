"""Feed rules, and the per-stream checks for gaps, duplicates, late events, prices and clocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sekai.config.checked import CheckedConfig
from sekai.live.events import BarEvent, CandleEvent, FeedEvent, QuoteEvent, TradeEvent

__all__ = [
    "CONFIRMATIONS",
    "KINDS",
    "AheadCheck",
    "ClockCheck",
    "EventStatus",
    "FeedRules",
    "PriceCheck",
    "SequenceTracker",
    "is_crossed",
]

EventKind = Literal["trade", "quote", "candle", "bar"]
Treatment = Literal["leave_out", "pass_on"]
KINDS: Mapping[type[FeedEvent], EventKind] = {
    TradeEvent: "trade",
    QuoteEvent: "quote",
    CandleEvent: "candle",
    BarEvent: "bar",
}
TREATMENTS = ("duplicate", "late", "clock_jump", "outlier", "crossed")
SECONDS = (
    *("bar_seconds", "stale_after", "clock_limit", "ahead_limit", "overlap", "backfill_timeout"),
)

CLOCK_TOLERANCE = 10**6
"""Nanoseconds that a clock may go back: continuous clock adjustment."""

EventStatus = Literal["new", "gap", "backfilled", "duplicate", "late", "restart"]
"""`backfilled` is a copy of an event that `since` returned; `restart` a new sequence."""

MAX_RANGES = 64
MAX_IDENTITIES = 10_000
"""Stored identities of events of one timestamp, and of backfilled events."""

LATE_LIMIT = 100
"""Consecutive late events, in order, after which the time or number before them was wrong."""

CONFIRMATIONS = 3
"""Consecutive events that agree with each other after which they outweigh a clock or time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRules(CheckedConfig):
    """Rules of a `CheckedFeed`; each violation is counted and reported by a notice."""

    contiguous: tuple[EventKind, ...] = ("trade", "bar")
    """Kinds whose `sequence` increases by one per symbol, so that a jump is a gap; that of other
    kinds only increases. Candles of a contiguous kind follow each other without a space."""

    bar_seconds: float | None = None
    """Interval of bars in a market that never closes: more than 1.5 intervals is a gap."""

    stale_after: float | None = None
    """Seconds without an event after which the feed is stale."""

    clock_limit: float | None = None
    """Largest difference between the clocks of venue and machine in seconds; not for replays."""

    ahead_limit: float | None = 5.0
    """Seconds that an event may be stamped after it was received, bars one interval more; an event
    further ahead is left out, unless all events of several seconds are as far ahead."""

    price_factor: float | None = 10.0
    """A price more than this factor above or below the previous one is an outlier."""

    confirmations: int = 3
    """Consecutive outliers near each other after which they are accepted as the price."""

    overlap: float = 5.0
    """Seconds before the last event from which to backfill after a reconnect."""

    backfill_timeout: float = 10.0
    """Timeout of `since` in seconds."""

    most_streams: int = 10_000
    """Largest number of streams, one per symbol and kind; events of more are rejected."""

    duplicate: Treatment = "leave_out"
    late: Treatment = "leave_out"
    clock_jump: Treatment = "pass_on"
    outlier: Treatment = "leave_out"
    crossed: Treatment = "leave_out"

    def __post_init__(self) -> None:
        if set(self.contiguous) - set(KINDS.values()):
            raise ValueError(
                f"unknown kind in contiguous {self.contiguous}; expected {sorted(KINDS.values())}"
            )
        for name in TREATMENTS:
            if getattr(self, name) not in ("leave_out", "pass_on"):
                raise ValueError(
                    f"{name} must be leave_out or pass_on, got {getattr(self, name)!r}"
                )
        for name in SECONDS:
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise ValueError(f"{name} must be above 0 seconds, got {value}")
        if self.price_factor is not None and not self.price_factor > 1:
            raise ValueError(f"price_factor must be above 1, got {self.price_factor}")
        for name in ("confirmations", "most_streams"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def leaves_out(self, name: str) -> bool:
        """Return True if events with that problem are left out."""
        return bool(getattr(self, name) == "leave_out")


class SequenceTracker:
    """Tracks one stream, events of one kind and symbol, to tell new events from old ones.

    Events with a `sequence` are compared by it, others by time and content. Trades with neither
    `sequence` nor `trade_id` may be equal, and are never duplicates.

    Args:
        event: the first event; it is not added yet.
        rules: rules of the feed.
    """

    def __init__(self, event: FeedEvent, rules: FeedRules) -> None:
        self.is_contiguous = KINDS[type(event)] in rules.contiguous
        self.period = round(rules.bar_seconds * 1e9) if rules.bar_seconds else None
        self._ahead_limit = None if rules.ahead_limit is None else round(rules.ahead_limit * 1e9)
        self.sequence: int | None = None
        self.exchange_time = 0
        self.is_suspect = False
        """True after an interruption of the feed: unnumbered events may be missing."""
        self._is_empty = True
        self._latest: Counter[Hashable] = Counter()
        self._backfilled: dict[tuple[int, Hashable], int] = {}
        self._missing: list[range] = []
        self._last_old: int | None = None
        self._late_run = 0
        self._late_time = 0

    @property
    def is_numbered(self) -> bool:
        """True if every missing event shows as a gap."""
        return self.is_contiguous and self.sequence is not None

    def classify(self, event: FeedEvent) -> EventStatus:
        """Classify an incoming event, without adding it."""
        if self._is_empty:
            return "new"
        if self._backfilled and _copy_key(event) in self._backfilled:
            return "backfilled"
        if event.sequence is not None and self.sequence is not None:
            return self._by_sequence(event, event.sequence, self.sequence)
        return self._by_content(event)

    def unseen(self, events: Sequence[FeedEvent], before: FeedEvent | None) -> list[FeedEvent]:
        """Of backfilled events, return those that are new and precede `before`, in order."""
        has_sequence = self.sequence is not None
        last, seen = self.sequence, Counter(self._latest)
        result: list[FeedEvent] = []
        for event in sorted(events, key=_sequence_first if has_sequence else _time_first):
            if before is not None and not _precedes(event, before, has_sequence):
                continue
            if event.sequence is not None and last is not None and has_sequence:
                if event.sequence <= last:
                    continue
                last = event.sequence
            elif self._is_seen(event, seen):
                continue
            result.append(event)
        return result

    def up_to_gap(self, events: Sequence[FeedEvent]) -> list[FeedEvent]:
        """Return the events before the first gap: those after it may still arrive live."""
        last = self.sequence
        result: list[FeedEvent] = []
        for event in events:
            if self.is_contiguous and last is not None and event.sequence not in (None, last + 1):
                break
            last = event.sequence
            result.append(event)
        return result

    def add(self, event: FeedEvent, *, is_backfilled: bool = False) -> None:
        """Add a new event."""
        is_same_time = not self._is_empty and event.exchange_time == self.exchange_time
        if not is_same_time or len(self._latest) >= MAX_IDENTITIES:
            self._latest.clear()
        self._late_run = 0
        self._is_empty = False
        self.exchange_time = event.exchange_time
        self.sequence = event.sequence if event.sequence is not None else self.sequence
        self._last_old = None
        if event.sequence is None:
            self._latest[_identity(event)] += 1
        if is_backfilled:
            key = _copy_key(event)
            self._backfilled[key] = self._backfilled.get(key, 0) + 1
            if len(self._backfilled) > MAX_IDENTITIES:
                del self._backfilled[next(iter(self._backfilled))]

    def add_old(self, event: FeedEvent) -> None:
        """Add an event that is not new."""
        key = _copy_key(event)
        copies = self._backfilled.pop(key, 0) - 1
        if copies > 0:
            self._backfilled[key] = copies
        if event.sequence is not None:
            is_rising = self._last_old is not None and event.sequence > self._last_old
            self._late_run = self._late_run + 1 if is_rising else 1
            self._last_old = event.sequence
            return
        if event.exchange_time < self.exchange_time:
            self._late_run = self._late_run + 1 if self._is_in_late_order(event) else 1
            self._late_time = event.exchange_time

    def add_missing(self, sequences: range) -> None:
        """Add missing sequence numbers: late if they arrive."""
        self._missing = [*self._missing[-MAX_RANGES + 1 :], sequences]

    def restart(self) -> None:
        """Forget all sequence numbers: the venue has restarted its sequence."""
        self.sequence = None
        self._missing.clear()

    def _is_seen(self, event: FeedEvent, seen: Counter[Hashable]) -> bool:
        if event.exchange_time != self.exchange_time or self._is_empty:
            return event.exchange_time < self.exchange_time
        if event.sequence is not None:
            # After a restart the events of this timestamp have other numbers.
            return True
        # Equal trades are matched one by one.
        seen[_identity(event)] -= 1
        return seen[_identity(event)] >= 0

    def _is_in_late_order(self, event: FeedEvent) -> bool:
        return self._late_run > 0 and event.exchange_time >= self._late_time

    def _by_sequence(self, event: FeedEvent, sequence: int, last: int) -> EventStatus:
        if sequence > last:
            return "gap" if self.is_contiguous and sequence > last + 1 else "new"
        is_missing = any(sequence in missing for missing in self._missing)
        if self._is_restart(event, sequence, last, is_missing):
            return "restart"
        if is_missing:
            return "late"
        return "duplicate" if self.is_contiguous or sequence == last else "late"

    def _is_restart(self, event: FeedEvent, sequence: int, last: int, is_missing: bool) -> bool:
        """Return True if the venue restarted its sequence: a lower number at a later time.

        After an interruption that is enough, unless the number is missing; otherwise the next
        number has to follow, or many increasing ones. The last number may also have been wrong, in
        which case all the numbers that it seemed to skip arrive.
        """
        if sequence >= last or event.exchange_time <= self.exchange_time:
            return False
        if self.is_suspect and not is_missing:
            return True
        if self._last_old is None or sequence <= self._last_old:
            return False
        return sequence == self._last_old + 1 or self._late_run >= LATE_LIMIT

    def _by_content(self, event: FeedEvent) -> EventStatus:
        if event.exchange_time < self.exchange_time:
            needed = CONFIRMATIONS if self._is_ahead_of(event) else LATE_LIMIT
            is_accepted = self._late_run >= needed and self._is_in_late_order(event)
            return "new" if is_accepted else "late"
        if event.exchange_time == self.exchange_time:
            may_repeat = isinstance(event, TradeEvent) and event.trade_id is None
            return "duplicate" if self._latest[_identity(event)] and not may_repeat else "new"
        return "gap" if self._has_gap(event) else "new"

    def _is_ahead_of(self, event: FeedEvent) -> bool:
        """Return True if the last time is wrong by the clock at which an event was received."""
        limit = self._ahead_limit
        if limit is None:
            return False
        return self.exchange_time > event.receive_time + limit + (self.period or 0)

    def _has_gap(self, event: FeedEvent) -> bool:
        if isinstance(event, BarEvent):
            distance = event.exchange_time - self.exchange_time
            return self.period is not None and distance > 1.5 * self.period
        if isinstance(event, CandleEvent):
            return self.is_contiguous and event.begin > self.exchange_time
        return False


@dataclass(slots=True)
class _PriceLevel:
    price: float
    """Last accepted price."""

    outlier: float = 0.0
    confirmations: int = 0


class PriceCheck:
    """Detects price outliers per symbol; repeated outliers near each other are accepted.

    Args:
        rules: rules of the feed.
        fields: field names of bars.
        assets: asset names of bars.
    """

    def __init__(self, rules: FeedRules, fields: Sequence[str], assets: Sequence[str]) -> None:
        self._factor = rules.price_factor
        self._confirmations = rules.confirmations
        self._close = list(fields).index("close") if "close" in fields else None
        self._assets = tuple(assets)
        self._levels: dict[tuple[str, str], _PriceLevel] = {}

    def outlier(self, event: FeedEvent) -> str | None:
        """Describe the outlier in an event; None if its prices are plausible."""
        if self._factor is None:
            return None
        if isinstance(event, TradeEvent):
            return self._check("trade", event.symbol, event.price)
        if isinstance(event, CandleEvent):
            return self._check("candle", event.symbol, event.close)
        if isinstance(event, QuoteEvent):
            bid = self._check("bid", event.symbol, event.bid)
            ask = self._check("ask", event.symbol, event.ask)
            return bid or ask
        if isinstance(event, BarEvent) and self._close is not None:
            return self._check_bar(event, self._close)
        return None

    def _check_bar(self, event: BarEvent, close: int) -> str | None:
        values = np.asarray(event.bar.values, np.float64)
        if values.ndim != 2 or len(values) != len(self._assets):
            return None
        problem = None
        for asset, price in zip(self._assets, values[:, close].tolist(), strict=True):
            # NaN is a missing price, which the env checks.
            if not math.isnan(price):
                problem = self._check("bar", asset, price) or problem
        return problem

    def _check(self, kind: str, symbol: str, price: float) -> str | None:
        if not 0 < price < math.inf:
            return f"{symbol} at {price:.10g}"
        level = self._levels.get((kind, symbol))
        if level is None:
            self._levels[kind, symbol] = _PriceLevel(price)
            return None
        if self._is_near(price, level.price):
            level.price, level.confirmations = price, 0
            return None
        level.confirmations = level.confirmations + 1 if self._is_near(price, level.outlier) else 1
        level.outlier = price
        if level.confirmations >= self._confirmations:
            self._levels[kind, symbol] = _PriceLevel(price)
            return None
        return f"{symbol} at {price:.10g} after {level.price:.10g}"

    def _is_near(self, price: float, other: float) -> bool:
        assert self._factor is not None
        return other > 0 and other / self._factor <= price <= other * self._factor


class ClockCheck:
    """Detects jumps of the clocks of the venue and of this machine."""

    def __init__(self, rules: FeedRules) -> None:
        self._limit = None if rules.clock_limit is None else rules.clock_limit * 1e9
        self._is_off = False
        self._receive_time = 0

    def jump(self, event: FeedEvent, previous_time: int) -> str | None:
        """Describe a clock jump; None if there is none.

        Args:
            event: the next event of its stream.
            previous_time: exchange time of the previous event of the stream.
        """
        problem = None
        if event.receive_time < self._receive_time - CLOCK_TOLERANCE:
            problem = f"local clock went back by {_seconds(self._receive_time, event.receive_time)}"
        if event.exchange_time < previous_time - CLOCK_TOLERANCE:
            problem = f"venue clock went back by {_seconds(previous_time, event.exchange_time)}"
        self._receive_time = event.receive_time
        offset = event.exchange_time - event.receive_time
        is_off = self._limit is not None and abs(offset) > self._limit
        if is_off and not self._is_off:
            problem = f"venue clock is {_seconds(offset)} ahead of the local clock"
        self._is_off = is_off
        return problem


class AheadCheck:
    """Detects events that are stamped in the future, by the clock at which they were received.

    The difference of both clocks is learned: when several consecutive events over some time are as
    far ahead as each other, the clocks differ and the events are accepted. So neither one wrong
    event nor a wrong clock of this machine can mute a feed.

    Args:
        limit: nanoseconds that an event may be ahead.
        span: nanoseconds over which events must agree before they are accepted.
    """

    def __init__(self, limit: int, span: int) -> None:
        self.limit = limit
        self._span = span
        self.offset = 0
        """Difference of the clocks in nanoseconds by which events may be ahead besides."""

        self._run = self._first = self._since = 0
        self._low = 0

    def exceeds(self, stamp: int, now: int, margin: int = 0) -> bool:
        """Return True if a stamp is further ahead than allowed; nothing is learned."""
        return stamp - now > self.offset + self.limit + margin

    def problem(self, stamp: int, now: int, margin: int = 0) -> str | None:
        """Describe an event that is too far ahead; None if it is accepted.

        Args:
            stamp: exchange time of the event in nanoseconds.
            now: time of its receipt.
            margin: nanoseconds that it may be ahead in addition.
        """
        offset = stamp - now
        if offset <= self.offset + self.limit + margin:
            self._run = 0
            if self.offset:
                self._forget_offset(offset)
            return None
        if self._run and abs(offset - self._first) <= self.limit + margin:
            self._run += 1
        else:
            self._run, self._first, self._since = 1, offset, now
        if self._run >= CONFIRMATIONS and now - self._since >= self._span:
            self.offset, self._run, self._low = offset, 0, 0
            return None
        return f"stamped {offset / 1e9:.3f} s after it was received"

    def _forget_offset(self, offset: int) -> None:
        """Return to a smaller difference of clocks once several events show it."""
        self._low = self._low + 1 if offset < self.offset - self.limit else 0
        if self._low >= CONFIRMATIONS:
            self.offset, self._low = max(0, offset), 0


def is_crossed(event: FeedEvent) -> bool:
    """Return True for a crossed quote: the bid is not below the ask."""
    return isinstance(event, QuoteEvent) and event.bid >= event.ask


def _seconds(end: int, begin: int = 0) -> str:
    return f"{(end - begin) / 1e9:.3f} s"


def _copy_key(event: FeedEvent) -> tuple[int, Hashable]:
    sequence = event.sequence
    return event.exchange_time, _identity(event) if sequence is None else ("sequence", sequence)


def _time_first(event: FeedEvent) -> tuple[int, int]:
    return event.exchange_time, event.sequence or 0


def _sequence_first(event: FeedEvent) -> tuple[int, int]:
    return event.sequence or 0, event.exchange_time


def _precedes(event: FeedEvent, other: FeedEvent, has_sequence: bool) -> bool:
    if event.sequence is not None and other.sequence is not None:
        key = _sequence_first if has_sequence else _time_first
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
