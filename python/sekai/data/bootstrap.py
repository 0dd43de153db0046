"""Block bootstrap of a panel: synthetic histories from resampled blocks of rows.

A row is drawn with all its assets, which keeps the cross-section. Prices are chained from the
change of each row against the previous mark; a halt stays a halt, and the row after it carries the
full gap.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.simulators.market import random_stream

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

WEEK = 7 * 86_400 * 10**9
OWN_CHAIN = "adj_close"
"""Price on a scale of its own: it is chained from its own last value."""


def bootstrap(
    data: MarketData,
    rows: int,
    seed: int = 0,
    *,
    block_length: float = 20,
    stationary: bool = True,
    unlisted: Literal["leave_out", "halt"] = "leave_out",
) -> MarketData:
    """Draw a history of `rows` rows from blocks of the rows of `data`.

    Every asset begins at its first close. Timestamps are those of `data`, repeated as often as
    needed with a shift of whole weeks. Dividends are scaled as prices are; other fields, and
    market-wide series, keep the values of the drawn rows.

    Args:
        data: history to draw from, with a field `close`.
        rows: number of rows to draw.
        seed: seed; equal seeds give equal bytes.
        block_length: mean length of a block if stationary, or else its length.
        stationary: draw geometric block lengths (stationary bootstrap).
        unlisted: rows before the first close of an asset and after its delisting: `leave_out`
            draws none of them, `halt` draws them and shows the asset as halted.
    """
    if "close" not in data.fields:
        raise ValueError(f"bootstrap requires the field 'close', got fields {list(data.fields)}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    marks = _last_marks(data.field("close"), data.quoted)
    source = _drawable(data, marks, unlisted)
    drawn = source[block_rows(len(source), rows, seed, block_length, stationary)]
    quoted = data.quoted[drawn] & np.isfinite(marks[drawn - 1])
    return data.replace(
        times=_timestamps(data, rows),
        values=_values(data, marks, drawn, quoted),
        listed=np.logical_or.accumulate(quoted, axis=0)
        if unlisted == "halt"
        else np.ones_like(quoted),
        quoted=quoted,
        tradable=quoted & data.tradable[drawn],
        market={name: series[drawn] for name, series in data.market.items()},
        warm_up=0,
    )


def block_rows(
    source: int, rows: int, seed: int, block_length: float, stationary: bool = True
) -> Rows:
    """Draw row indices below `source` in blocks that wrap around at the end.

    The stationary bootstrap is that of Politis and Romano (1994) with geometric lengths; otherwise
    blocks have a fixed length.
    """
    if not 1 <= block_length <= source:
        raise ValueError(f"block_length must be from 1 to {source} rows, got {block_length}")
    if not stationary and block_length != int(block_length):
        raise ValueError(f"block_length must be an integer unless stationary, got {block_length}")
    begins = np.arange(rows) % int(block_length) == 0
    if stationary:
        begins = random_stream(seed, "bootstrap", "begins").random(rows) < 1 / block_length
        begins[0] = True
    firsts = random_stream(seed, "bootstrap", "firsts").integers(0, source, rows)
    row = np.arange(rows)
    since = np.maximum.accumulate(np.where(begins, row, 0))
    drawn: Rows = (firsts[since] + row - since) % source
    return drawn


def _drawable(data: MarketData, marks: Floats, unlisted: str) -> Rows:
    """Rows that follow a mark."""
    if unlisted not in ("leave_out", "halt"):
        raise ValueError(f"unlisted must be 'leave_out' or 'halt', got {unlisted!r}")
    follows = np.isfinite(marks[:-1]) & data.listed[1:]
    usable = follows.any(axis=1) if unlisted == "halt" else follows.all(axis=1)
    rows = np.flatnonzero(usable) + 1
    if not rows.size:
        raise ValueError(
            "no row has every asset listed after its first close; choose other assets, or pass "
            "unlisted='halt'"
        )
    return rows


def _last_marks(values: Floats, quoted: Bools) -> Floats:
    """Last quoted value at or before each row; NaN before the first."""
    seen = quoted & np.isfinite(values)
    row = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(seen, row, -1), axis=0)
    marks: Floats = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), 0), np.nan)
    return marks


def _values(data: MarketData, marks: Floats, drawn: Rows, quoted: Bools) -> Floats:
    values = data.values[drawn]
    before = _chained(data.field("close"), marks, drawn, quoted)
    for index, name in enumerate(data.fields):
        if name == OWN_CHAIN:
            own = _last_marks(data.field(name), data.quoted)
            start = _chained(data.field(name), own, drawn, quoted)
            values[:, :, index] *= start / own[drawn - 1]
        elif name in PRICE_FIELDS or name == "dividend":
            values[:, :, index] *= before / marks[drawn - 1]
    values[~quoted] = np.nan
    return values


def _chained(values: Floats, marks: Floats, drawn: Rows, quoted: Bools) -> Floats:
    """Mark before each drawn row in the new history."""
    growth = np.log(
        np.divide(values[drawn], marks[drawn - 1], where=quoted, out=np.ones(quoted.shape))
    )
    ends = np.cumsum(growth, axis=0)
    begins = np.concatenate([np.zeros((1, ends.shape[1])), ends[:-1]])
    first = np.argmax(np.isfinite(marks), axis=0)
    before: Floats = marks[first, np.arange(marks.shape[1])] * np.exp(begins)
    return before


def _timestamps(data: MarketData, rows: int) -> NDArray[np.datetime64]:
    """Timestamps of the panel, repeated on the same days of the week."""
    own = data.calendar.nanoseconds
    span = int(own[-1] - own[0]) + data.frequency.nanoseconds
    weeks = -(-span // WEEK) * WEEK
    repetition, row = np.divmod(np.arange(rows), len(own))
    times: NDArray[np.datetime64] = (own[row] + repetition * weeks).astype("datetime64[ns]")
    return times
