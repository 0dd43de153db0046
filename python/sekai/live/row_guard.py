"""Row guard: accepts or rejects rows by their timestamps and prices before a session trades."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar, MarketData
from sekai.live.clock import Clock
from sekai.live.events import BarEvent, NoticeKind, bar_time
from sekai.live.feeds.feed_rules import CONFIRMATIONS, AheadCheck

__all__ = ["RowGuard", "RowVerdict"]

MIN_LIMIT_SECONDS = 5.0
PRICE_FACTOR = 1e3
"""A price further from the last one than this factor is absurd."""

LARGEST_VALUE = 1e100
"""No number of a row is larger: the value of a position must be finite, however often a row with
such a price is repeated."""

CONFIRMING_FACTOR = 10.0
"""A row confirms the absurd prices of the row before within this factor."""

PRICE_FIELDS = ("open", "high", "low", "close", "price", "vwap", "bid", "ask")
REMEMBERED_ROWS = 1_024
MAX_REPLAY_GAP = 31 * 86_400 * 10**9
"""Longest gap between rows of a replay that needs no confirmation: markets close for days."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowVerdict:
    """Decision on a row."""

    event: BarEvent | None
    """The row to process; None if it is rejected. After a clock jump its `bar.time` may be moved
    after the last row, because the times of an env increase."""

    row_time: int
    """Timestamp that the venue gave the row, in nanoseconds since 1970."""

    kind: NoticeKind | None = None
    """Kind of the notice about it; None for a row without a problem."""

    reason: str = ""
    is_alert: bool = False
    """True if operators must see the reason; False for rows that are known already."""


class RowGuard:
    """Decides on each row before it is journaled, so that no wrong row mutes a session.

    Rejected are rows that are stamped further ahead of the local clock than the limit, rows that go
    back in time, rows with infinite prices or with quoted prices that are missing, and rows with
    prices further than a factor of 1,000 from the last ones. Whatever three consecutive rows agree
    on is accepted with a `clock_jump`: clocks that differ, or a last timestamp that was wrong. A
    second row with such prices confirms them.

    Args:
        clock: clock of this machine.
        limit_seconds: seconds that a row may be ahead; None for the longer of 5 s and one row.
        history: rows before the first one.
        is_replay: timestamps are of the past, and are compared with each other alone.
    """

    def __init__(
        self,
        clock: Clock,
        limit_seconds: float | None,
        history: MarketData | None,
        *,
        is_replay: bool = False,
    ) -> None:
        length = 0 if history is None else history.frequency.nanoseconds
        if limit_seconds is None:
            limit_seconds = max(MIN_LIMIT_SECONDS, length / 1e9)
        if not 0 <= limit_seconds < 1e9:
            raise ValueError(f"limit_seconds must be at least 0, got {limit_seconds}")
        self._clock = clock
        # Rows that agree are at least half a row apart: a burst of wrong ones proves nothing.
        self._ahead = AheadCheck(round(limit_seconds * 1e9), length * (CONFIRMATIONS - 1) // 2)
        self._is_replay = is_replay
        self._times: deque[int] = deque(maxlen=REMEMBERED_ROWS)
        self._last = self._env_last = 0
        self._back: list[int] = []
        self._pending_jump: int | None = None
        fields = () if history is None else history.fields
        self._columns = [place for place, name in enumerate(fields) if name in PRICE_FIELDS]
        self._prices: NDArray[np.float64] | None = None
        self._absurd: NDArray[np.float64] | None = None
        self._before: tuple[int, int, NDArray[np.float64] | None] = (0, 0, None)
        if history is not None and len(history):
            for stamp in history.calendar.nanoseconds[-REMEMBERED_ROWS:].tolist():
                self._times.append(stamp)
            self._last = self._env_last = self._times[-1]
            for values in history.values[-REMEMBERED_ROWS:]:
                self._note_prices(values)

    def follow(self, bar: Bar, exchange_time: int | None = None) -> None:
        """Continue after a row that was accepted before a restart.

        Args:
            bar: the row as it was journaled.
            exchange_time: timestamp of the venue; that of the row if None.
        """
        self._accept(bar_time(bar) if exchange_time is None else exchange_time, bar_time(bar))
        self._note_prices(np.asarray(bar.values, np.float64))

    def check(self, event: BarEvent) -> RowVerdict:
        """Decide on the next row."""
        stamp, now = bar_time(event.bar), self._clock.wall_ns()
        if stamp <= self._last and stamp in self._times:
            return RowVerdict(None, stamp, "duplicate", "known row")
        values = np.asarray(event.bar.values, np.float64)
        problem = self._value_problem(event.bar, values)
        if problem is not None:
            return self._reject(stamp, "garbage", problem)
        jump = self._time_problem(stamp, now)
        if isinstance(jump, RowVerdict):
            return jump
        outlier = self._price_problem(values)
        if outlier is not None:
            return self._reject(stamp, "outlier", outlier)
        self._before = self._last, self._env_last, self._prices
        self._note_prices(values)
        moved = stamp if stamp > self._env_last else self._env_last + 1
        self._accept(stamp, moved)
        if moved != stamp:
            bar = dataclasses.replace(event.bar, time=np.datetime64(moved, "ns"))
            event = dataclasses.replace(event, bar=bar)
        if jump:
            return RowVerdict(event, stamp, "clock_jump", jump, is_alert=True)
        return RowVerdict(event, stamp)

    def state_dict(self) -> dict[str, Any]:
        """State for a snapshot."""
        return {
            "times": list(self._times),
            "last": self._last,
            "env_last": self._env_last,
            "prices": self._prices,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the state of `state_dict`."""
        self._times = deque(state["times"], maxlen=REMEMBERED_ROWS)
        self._last, self._env_last = int(state["last"]), int(state["env_last"])
        prices = state["prices"]
        self._prices = None if prices is None else np.asarray(prices, np.float64)
        self._back, self._absurd, self._pending_jump = [], None, None

    def retract(self) -> None:
        """Forget the last row that was accepted: something else refused it."""
        if self._times:
            self._times.pop()
        self._last, self._env_last, self._prices = self._before

    def _accept(self, stamp: int, env_time: int) -> None:
        self._times.append(stamp)
        self._last, self._env_last = stamp, max(env_time, self._env_last)
        self._back.clear()
        self._pending_jump = None

    def _reject(self, stamp: int, kind: NoticeKind, reason: str) -> RowVerdict:
        text = f"row of {np.datetime64(stamp, 'ns')} rejected: {reason}"
        return RowVerdict(None, stamp, kind, text, is_alert=True)

    def _is_last_wrong(self, now: int) -> bool:
        return not self._is_replay and self._ahead.exceeds(self._last, now)

    def _time_problem(self, stamp: int, now: int) -> RowVerdict | str:
        """Rejection of a timestamp; else the description of a clock jump, or an empty text."""
        if not self._is_replay:
            before = self._ahead.offset
            problem = self._ahead.problem(stamp, now)
            if problem is not None:
                return self._reject(stamp, "clock_jump", problem)
            if self._ahead.offset > before:
                seconds = self._ahead.offset / 1e9
                return f"venue clock is {seconds:.3f} s ahead of the local clock; rows are accepted"
        elif self._is_far_ahead(stamp):
            days = (stamp - self._last) / 86_400e9
            return self._reject(stamp, "clock_jump", f"{days:.1f} days after the last row")
        return "" if stamp > self._last else self._time_back(stamp, now)

    def _is_far_ahead(self, stamp: int) -> bool:
        """Return True for a row of a replay far after the last one that no row confirms yet."""
        if not self._last or stamp - self._last <= MAX_REPLAY_GAP:
            self._pending_jump = None
            return False
        pending, self._pending_jump = self._pending_jump, stamp
        return pending is None or not pending < stamp <= pending + MAX_REPLAY_GAP

    def _time_back(self, stamp: int, now: int) -> RowVerdict | str:
        """Reject a row that goes back, until several show that the last timestamp was wrong."""
        if not (self._is_replay or self._is_last_wrong(now)) or stamp <= self._known_until(now):
            self._back.clear()
            return self._reject(stamp, "late", f"it is before the last row, {_shown(self._last)}")
        if self._back and stamp <= self._back[-1]:
            self._back.clear()
        self._back.append(stamp)
        if len(self._back) < CONFIRMATIONS:
            return self._reject(stamp, "clock_jump", f"the last row was of {_shown(self._last)}")
        return (
            f"{CONFIRMATIONS} rows are before {_shown(self._last)}, a timestamp that was wrong; "
            f"rows continue at {_shown(stamp)}"
        )

    def _known_until(self, now: int) -> int:
        """Time until which rows are known: repeated after a restart, they are not new."""
        if self._is_replay:
            return self._times[-min(len(self._times), CONFIRMATIONS + 1)]
        return max((time for time in self._times if not self._ahead.exceeds(time, now)), default=0)

    def _value_problem(self, bar: Bar, values: NDArray[np.float64]) -> str | None:
        # Comparisons with NaN are False.
        if (np.abs(values) > LARGEST_VALUE).any():
            return "it holds infinite values" if np.isinf(values).any() else _too_large(values)
        columns = self._price_columns(values)
        if bar.quoted is None or columns is None:
            return None
        quoted = np.asarray(bar.quoted, bool)
        if quoted.shape == (len(values),) and np.isnan(columns[quoted]).any():
            return "a quoted price is missing"
        return None

    def _price_problem(self, values: NDArray[np.float64]) -> str | None:
        prices, last = self._price_columns(values), self._prices
        pending, self._absurd = self._absurd, None
        if prices is None or last is None or last.shape != prices.shape:
            return None
        is_absurd = _is_far(prices, last, PRICE_FACTOR)
        if not is_absurd.any():
            return None
        if pending is not None and not (is_absurd & ~_is_near(prices, pending)).any():
            return None
        self._absurd = prices
        asset, column = (int(place[0]) for place in np.nonzero(is_absurd))
        return (
            f"price {prices[asset, column]:.10g} of asset {asset} after {last[asset, column]:.10g}"
        )

    def _price_columns(self, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
        is_panel = values.ndim == 2 and self._columns and values.shape[1] > self._columns[-1]
        return values[:, self._columns] if is_panel else None

    def _note_prices(self, values: NDArray[np.float64]) -> None:
        """Take over valid prices; a missing one keeps the price before it."""
        prices = self._price_columns(values)
        if prices is None:
            return
        is_valid = np.isfinite(prices) & (prices > 0)
        if self._prices is None or self._prices.shape != prices.shape:
            self._prices = np.full(prices.shape, np.nan)
        self._prices = np.where(is_valid, prices, self._prices)


def _too_large(values: NDArray[np.float64]) -> str:
    return f"it holds {np.nanmax(np.abs(values)):.10g}, expected at most {LARGEST_VALUE:g}"


def _is_far(prices: NDArray[np.float64], last: NDArray[np.float64], factor: float) -> Any:
    # Comparisons with NaN are False: a price that is missing is not absurd.
    return (prices > 0) & ((prices / factor > last) | (prices < last / factor))


def _is_near(prices: NDArray[np.float64], other: NDArray[np.float64]) -> Any:
    is_known = np.isfinite(prices) & np.isfinite(other)
    return is_known & ~_is_far(prices, other, CONFIRMING_FACTOR)


def _shown(stamp: int) -> str:
    return str(np.datetime64(stamp, "ns"))
