"""Other histories that could have been: a panel's own rows, drawn again in blocks.

A row is drawn with all its assets, so that what happened together stays together. Prices are
chained from what each row did to the marks before it; a halt stays a halt, and the row after it
carries its whole gap.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.simulators.streams import stream

__all__ = ["block_rows", "bootstrap"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

WEEK = 7 * 86_400 * 10**9
OWN_CHAIN = "adj_close"
"""A price that is not on the scale of the others: it follows its own last value."""


def bootstrap(
    data: MarketData,
    rows: int,
    seed: int = 0,
    *,
    block_length: float = 20,
    stationary: bool = True,
    unlisted: Literal["leave_out", "halt"] = "leave_out",
) -> MarketData:
    """A history of `rows` rows, made of blocks of the rows of `data`.

    Every asset begins at its first close. Stamps are those of `data`, and once more some whole
    weeks later as often as it takes. Fields that are no prices, and series of the market, keep the
    values of the rows that are drawn.

    Args:
        data: the history to draw from; it needs a field `close`.
        rows: how many rows to make.
        seed: the same seed gives the same bytes.
        block_length: rows in a block: on average if stationary, or else always.
        stationary: whether lengths of blocks are drawn, so that no row is special.
        unlisted: what to do with rows before an asset has a close to start from, and after it was
            delisted: draw none of them, or draw them and show the asset as halted there.
    """
    if "close" not in data.fields:
        raise ValueError(f"a field 'close' was wanted, found {', '.join(data.fields)}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, was {rows}")
    marks = _last_marks(data.field("close"), data.quoted)
    source = _drawable(data, marks, unlisted)
    drawn = source[block_rows(len(source), rows, seed, block_length, stationary)]
    quoted = data.quoted[drawn] & np.isfinite(marks[drawn - 1])
    return data.replace(
        times=_stamps(data, rows),
        values=_values(data, marks, drawn, quoted),
        listed=np.logical_or.accumulate(quoted, axis=0) if unlisted == "halt" else
        np.ones_like(quoted),
        quoted=quoted,
        tradable=quoted & data.tradable[drawn],
        market={name: series[drawn] for name, series in data.market.items()},
        warm_up=0,
    )  # fmt: skip


def block_rows(
    source: int, rows: int, seed: int, block_length: float, stationary: bool = True
) -> Rows:
    """Which of `source` rows are drawn, in blocks that go on at the first row after the last.

    The stationary kind is that of Politis and Romano (1994), with geometric lengths; the other has
    blocks of one length.
    """
    if not 1 <= block_length <= source:
        raise ValueError(
            f"block_length must be from 1 to the {source} rows there are, was {block_length}"
        )
    if not stationary and block_length != int(block_length):
        raise ValueError(f"block_length must be whole unless stationary, was {block_length}")
    begins = np.arange(rows) % int(block_length) == 0
    if stationary:
        begins = stream(seed, "bootstrap", "begins").random(rows) < 1 / block_length
        begins[0] = True
    firsts = stream(seed, "bootstrap", "firsts").integers(0, source, rows)
    row = np.arange(rows)
    since = np.maximum.accumulate(np.where(begins, row, 0))
    drawn: Rows = (firsts[since] + row - since) % source
    return drawn


def _drawable(data: MarketData, marks: Floats, unlisted: str) -> Rows:
    """The rows that have something to follow."""
    if unlisted not in ("leave_out", "halt"):
        raise ValueError(f"unlisted must be 'leave_out' or 'halt', was {unlisted!r}")
    follows = np.isfinite(marks[:-1]) & data.listed[1:]
    usable = follows.any(axis=1) if unlisted == "halt" else follows.all(axis=1)
    found = np.flatnonzero(usable) + 1
    if not found.size:
        raise ValueError(
            "no row has every asset listed after a close of it: choose other assets, or "
            "unlisted='halt'"
        )
    return found


def _last_marks(values: Floats, quoted: Bools) -> Floats:
    """The last quoted value at or before each row; NaN before there is one."""
    seen = quoted & np.isfinite(values)
    row = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(seen, row, -1), axis=0)
    marks: Floats = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), 0), np.nan)
    return marks


def _values(data: MarketData, marks: Floats, drawn: Rows, quoted: Bools) -> Floats:
    values = data.values[drawn]
    before = _chained(data.field("close"), marks, drawn, quoted)
    for place, name in enumerate(data.fields):
        if name == OWN_CHAIN:
            own = _last_marks(data.field(name), data.quoted)
            start = _chained(data.field(name), own, drawn, quoted)
            values[:, :, place] *= start / own[drawn - 1]
        elif name in PRICE_FIELDS:
            values[:, :, place] *= before / marks[drawn - 1]
    values[~quoted] = np.nan
    return values


def _chained(values: Floats, marks: Floats, drawn: Rows, quoted: Bools) -> Floats:
    """The mark before each drawn row, in the history that is made."""
    growth = np.log(np.divide(values[drawn], marks[drawn - 1], where=quoted,
                              out=np.ones(quoted.shape)))  # fmt: skip
    ends = np.cumsum(growth, axis=0)
    begins = np.concatenate([np.zeros((1, ends.shape[1])), ends[:-1]])
    first = np.argmax(np.isfinite(marks), axis=0)
    before: Floats = marks[first, np.arange(marks.shape[1])] * np.exp(begins)
    return before


def _stamps(data: MarketData, rows: int) -> NDArray[np.datetime64]:
    """The stamps of the panel, again and again, on the same days of the week."""
    own = data.calendar.nanoseconds
    span = int(own[-1] - own[0]) + data.frequency.nanoseconds
    weeks = -(-span // WEEK) * WEEK
    again, place = np.divmod(np.arange(rows), len(own))
    stamps: NDArray[np.datetime64] = (own[place] + again * weeks).astype("datetime64[ns]")
    return stamps
