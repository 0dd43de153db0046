"""Makes rows of bars out of trades, on a fixed grid of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data import Bar, MarketData
from sekai.data.panel_checks import checked_names
from sekai.live.events import TradeEvent

__all__ = ["BAR_FIELDS", "EmptySpan", "SpanBuilder"]

BAR_FIELDS = ("open", "high", "low", "close", "volume")
EmptySpan = Literal["hole", "carry"]
NO_TRADE = (float("nan"), float("nan"), float("nan"), float("nan"), 0.0)


class SpanBuilder:
    """Gathers the trades of one span after the other; spans begin at multiples of their length.

    A trade at the end of a span belongs to the next. Assets are listed from their first trade on.
    One without a trade in a span is not quoted in it, with NaN for prices and a volume of 0
    (`hole`), or it is quoted at its last close with a volume of 0 (`carry`).
    """

    def __init__(
        self, assets: Sequence[str], seconds: float, fields: Sequence[str], empty: EmptySpan
    ) -> None:
        """Begin before the first trade."""
        self.assets = checked_names("assets", assets)
        self.fields = checked_names("fields", fields)
        strangers = sorted(set(fields) - set(BAR_FIELDS))
        if strangers:
            raise ValueError(f"fields among {BAR_FIELDS} were wanted, found {strangers}")
        if not 1e-9 <= seconds < 1e9:
            raise ValueError(f"seconds must be above 0, was {seconds}")
        if empty not in ("hole", "carry"):
            raise ValueError(f"empty must be hole or carry, was {empty!r}")
        self.span = round(seconds * 1e9)
        self.empty = empty
        self.end: int | None = None
        """When the span that is open ends, in nanoseconds; None before the first."""
        self._places = {name: place for place, name in enumerate(self.assets)}
        self._cells: list[list[float] | None] = [None] * len(self.assets)
        self._closes: list[float | None] = [None] * len(self.assets)
        # None for all of them, in order.
        columns = [BAR_FIELDS.index(name) for name in self.fields]
        self._columns = None if self.fields == BAR_FIELDS else columns
        self._listed, self._quoted = Mask(), Mask()

    def follow(self, history: MarketData) -> None:
        """Begin with the span after the last row of a history."""
        if history.assets != self.assets or history.fields != self.fields:
            raise ValueError(
                f"a history of {self.assets} and {self.fields} was wanted, found one of "
                f"{history.assets} and {history.fields}"
            )
        last = int(history.calendar.nanoseconds[-1])
        if last % self.span:
            raise ValueError(
                f"a history whose rows are {self.span / 1e9} s apart and end at multiples of that "
                f"was wanted, its last is at {history.times[-1]}"
            )
        self.end = last + self.span
        if "close" in self.fields:
            closes = history.field("close")
            for place in range(len(self.assets)):
                quoted = np.flatnonzero(np.isfinite(closes[:, place]))
                if quoted.size:
                    self._closes[place] = float(closes[quoted[-1], place])

    def knows(self, symbol: str) -> bool:
        """Whether it is one of the assets."""
        return symbol in self._places

    def is_late(self, trade: TradeEvent) -> bool:
        """Whether its span is closed."""
        return self.end is not None and trade.exchange_time < self.end - self.span

    def is_ahead(self, trade: TradeEvent) -> bool:
        """Whether the open span has to be closed first."""
        return self.end is not None and trade.exchange_time >= self.end

    def add(self, trade: TradeEvent) -> None:
        """Take in a trade of the open span, or the first of all."""
        if self.end is None:
            self.end = trade.exchange_time // self.span * self.span + self.span
        place = self._places[trade.symbol]
        cell = self._cells[place]
        price, size = trade.price, trade.size
        if cell is None:
            self._cells[place] = [price, price, price, price, size, 0.0]
            return
        if price > cell[1]:
            cell[1] = price
        elif price < cell[2]:
            cell[2] = price
        cell[3] = price
        # After Neumaier: what the sum cannot hold is kept beside it, so that the order and the
        # number of trades do not show in the volume.
        before = cell[4]
        total = before + size
        cell[5] += (before - total) + size if before >= size else (size - total) + before
        cell[4] = total

    def close(self) -> Bar:
        """The row of the open span; the next one is open then."""
        assert self.end is not None, "a span is open after the first trade"
        rows: list[Sequence[float]] = []
        listed, quoted = [], []
        for place, cell in enumerate(self._cells):
            last = self._closes[place]
            if cell is not None:
                row = (cell[0], cell[1], cell[2], cell[3], cell[4] + cell[5])
                self._closes[place] = cell[3]
            elif self.empty == "carry" and last is not None:
                row = (last, last, last, last, 0.0)
            else:
                row = NO_TRADE
            columns = self._columns
            rows.append(row if columns is None else [row[column] for column in columns])
            quoted.append(row[3] == row[3])
            listed.append(self._closes[place] is not None)
        quotes = self._quoted.of(quoted)
        bar = Bar(np.datetime64(self.end, "ns"), np.array(rows), self._listed.of(listed),
                  quotes, quotes)  # fmt: skip
        self._cells = [None] * len(self.assets)
        self.end += self.span
        return bar


class Mask:
    """An array that rows share until one of them differs: few do, and a decision waits for each."""

    def __init__(self) -> None:
        self._flags: list[bool] = []
        self._array = np.array(self._flags)

    def of(self, flags: list[bool]) -> NDArray[np.bool_]:
        """The flags as an array that nobody can write to."""
        if flags != self._flags:
            self._flags, self._array = flags, np.array(flags)
            self._array.flags.writeable = False
        return self._array
