"""Streaming market data: bars, feeds, and a panel that grows by one row at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import row_masks, seen_places
from sekai.data.delisting import StreamingLifetimes
from sekai.data.market_data import MarketData, price_indices
from sekai.error import StateError
from sekai.storage.display import brief_repr

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

MIN_CAPACITY = 64
"""Rows allocated at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Bar:
    """Row of a panel: the values of all assets at one time, validated by the consumer."""

    time: np.datetime64 | str
    """Time at which all of it was known, in UTC."""

    values: ArrayLike
    """Assets by fields; NaN where missing."""

    listed: ArrayLike | None = None
    """Mask of listed assets; by default those with a value in the last rows."""

    quoted: ArrayLike | None = None
    """Mask of quoted assets; by default those with all prices."""

    tradable: ArrayLike | None = None
    """Mask of assets in which orders can be filled; by default those quoted."""

    market: Mapping[str, float] = field(default_factory=dict)
    """Value of every market-wide series."""

    __repr__ = brief_repr

    @classmethod
    def each(cls, data: MarketData, start: int = 0, stop: int | None = None) -> Iterator[Bar]:
        """Yield the rows of a panel in order, to replay them."""
        for row in range(start, len(data) if stop is None else stop):
            yield cls(
                data.times[row],
                data.values[row],
                data.listed[row],
                data.quoted[row],
                data.tradable[row],
                {name: series[row] for name, series in data.market.items()},
            )

    def masks(self) -> dict[str, Any]:
        """Masks by name; None where not set."""
        return {"listed": self.listed, "quoted": self.quoted, "tradable": self.tradable}


@runtime_checkable
class BarFeed(Protocol):
    """Feed of bars that follow a known history. See `sekai.live.Feed`."""

    history: MarketData | None
    """Rows known before the first bar."""

    async def next_bar(self) -> Bar:
        """Wait for the next bar; raise `FeedEndedError` after the last one.

        A cancelled call does not lose a bar.
        """


class StreamingPanel:
    """Panel that starts with a history and grows by one row at a time.

    `push` is on the latency path of live decisions, so it favours few operations over short ones.
    """

    def __init__(self, history: MarketData) -> None:
        self._like = history
        self._prices = price_indices(history.fields)
        self._series = tuple(history.market)
        self._count = len(history)
        seen = seen_places(history.values, history.quoted)
        rule = history.delist_after
        self._lifetimes = (
            None
            if rule is None
            else StreamingLifetimes(history.calendar, seen, history.listed, rule)
        )
        self._take_over(
            history.times,
            history.values,
            np.stack([history.listed, history.quoted, history.tradable, seen]),
            np.stack([*history.market.values(), np.zeros(len(history))])[:-1],
        )

    def __len__(self) -> int:
        return self._count

    def push(
        self,
        time: Any,
        values: ArrayLike,
        *,
        listed: ArrayLike | None = None,
        quoted: ArrayLike | None = None,
        tradable: ArrayLike | None = None,
        market: Mapping[str, float] | None = None,
    ) -> MarketData:
        """Append the next row and return it as a panel of one row; see `FeatureStream.push`.

        An invalid row raises `ValueError` and changes nothing.
        """
        timestamp = self._checked_time(time)
        series = market or {}
        if series.keys() != set(self._series):
            raise ValueError(f"market series must be {sorted(self._series)}, got {sorted(series)}")
        row = self._shaped("values", np.asarray(values, np.float64), 2)
        masks = row_masks(
            row,
            self._prices,
            self._still_listed(timestamp),
            self._mask("listed", listed),
            self._mask("quoted", quoted),
            self._mask("tradable", tradable),
        )
        self._append(timestamp, row, masks, [series[name] for name in self._series])
        latest = self.panel(1)
        try:
            latest.check_rows()
        except ValueError:
            self.take_back()
            raise
        return latest

    def panel(self, rows: int | None = None) -> MarketData:
        """Return the last `rows` rows, or all, without a copy."""
        first = 0 if rows is None else max(0, self._count - rows)
        cut = slice(first, self._count)
        times, values, masks, market = self._views
        return self._like.with_checked_rows(
            times[cut],
            values[cut],
            dict(zip(self._series, market[:, cut], strict=True)),
            {"listed": masks[0, cut], "quoted": masks[1, cut], "tradable": masks[2, cut]},
        )

    def take_back(self) -> None:
        """Undo the last `push`."""
        self._count -= 1
        if self._lifetimes is not None:
            self._lifetimes.take_back()

    def forget(self, rows: int) -> None:
        """Drop the first `rows` rows."""
        if rows == 0:
            return
        cut = slice(rows, self._count)
        self._count -= rows
        self._take_over(
            self._times[cut], self._values[cut], self._masks[:, cut], self._market[:, cut]
        )

    def state_dict(self, rows: int | None = None) -> dict[str, Any]:
        """State from which rows are pushed as before: the last `rows` rows, or all."""
        first = 0 if rows is None else max(0, self._count - rows)
        cut = slice(first, self._count)
        return {
            "times": self._instants[cut].copy(),
            "values": self._values[cut].copy(),
            "masks": self._masks[:, cut].copy(),
            "market": self._market[:, cut].copy(),
            "lifetimes": None if self._lifetimes is None else self._lifetimes.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace all rows by those of a saved state; one that does not fit changes nothing."""
        times, values = np.array(state["times"], np.int64), np.asarray(state["values"], np.float64)
        masks, market = np.asarray(state["masks"], np.bool_), np.asarray(state["market"])
        rows, assets = len(times), self._values.shape[1]
        shapes = (values.shape, masks.shape, market.shape)
        expected = (
            (rows, *self._values.shape[1:]),
            (len(self._masks), rows, assets),
            (len(self._market), rows),
        )
        if shapes != expected or (state["lifetimes"] is None) != (self._lifetimes is None):
            raise StateError(f"rows of another panel: got shapes {shapes}, expected {expected}")
        if self._lifetimes is not None:
            self._lifetimes.load_state_dict(state["lifetimes"])
        self._count = rows
        self._take_over(times.view("datetime64[ns]"), values, masks, market)

    def _take_over(
        self, times: NDArray[np.datetime64], values: Floats, masks: Bools, market: Floats
    ) -> None:
        """Copy rows to arrays with room for more; views handed out before stay valid."""
        capacity = max(MIN_CAPACITY, 2 * len(times))
        self._times, self._values = grown(times, 0, capacity), grown(values, 0, capacity)
        self._masks, self._market = grown(masks, 1, capacity), grown(market, 1, capacity)
        self._instants = self._times.view(np.int64)
        arrays = (self._times, self._values, self._masks, self._market)
        self._views = tuple(_read_only(array) for array in arrays)

    def _append(self, time: np.datetime64, row: Floats, masks: Bools, market: list[float]) -> None:
        if self._count == len(self._times):
            self._take_over(self._times, self._values, self._masks, self._market)
        index = self._count
        self._times[index] = time
        self._values[index] = row
        self._masks[:, index] = masks
        if market:
            self._market[:, index] = market
        self._count += 1
        if self._lifetimes is not None:
            self._lifetimes.push(time, masks[3])

    def _still_listed(self, time: np.datetime64) -> Bools:
        """Mask of assets that stay listed without a value, as one row; no row before the first."""
        before: Bools = self._masks[0, max(0, self._count - 1) : self._count]
        return before if self._lifetimes is None else self._lifetimes.still_listed(time, before)

    def _checked_time(self, time: Any) -> np.datetime64:
        timestamp: np.datetime64 = np.datetime64(time, "ns")
        instant = timestamp.item()
        if instant is None or (self._count and instant <= self._instants[self._count - 1]):
            last = self._times[self._count - 1] if self._count else "none"
            raise ValueError(f"time must be after the last row at {last}, got {timestamp}")
        return timestamp

    def _mask(self, name: str, values: ArrayLike | None) -> Bools | None:
        if values is None:
            return None
        mask = self._shaped(name, np.asarray(values), 1)
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must have dtype bool, got {mask.dtype}")
        return mask

    def _shaped(self, name: str, array: NDArray[Any], axes: int) -> NDArray[Any]:
        shape = self._like.values.shape[1 : 1 + axes]
        if array.shape != shape:
            fields = f" (assets by the fields {', '.join(self._like.fields)})" if axes == 2 else ""
            raise ValueError(f"{name} must have shape {shape}{fields}, got {array.shape}")
        return array


def grown(array: NDArray[Any], axis: int, capacity: int) -> NDArray[Any]:
    """Copy of an array with capacity for more along an axis."""
    shape = (*array.shape[:axis], capacity, *array.shape[axis + 1 :])
    grown = np.empty(shape, array.dtype)
    grown[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return grown


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view
