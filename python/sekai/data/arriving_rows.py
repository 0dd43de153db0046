"""Rows of a market as they arrive: checked, and with what they leave unsaid filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs._core import row_masks, seen_places
from sekai.data.delisting import ArrivingLifetimes
from sekai.data.market_data import MarketData
from sekai.data.panel_checks import price_places

__all__ = ["ArrivingRows"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

FEWEST = 64
"""Rows that there is room for at least."""


class ArrivingRows:
    """A history and the rows that came after it.

    A decision waits for what a row costs here, in a process that was asleep until it came: few
    steps count for more than short ones.
    """

    def __init__(self, history: MarketData) -> None:
        """Begin with `history`."""
        self._like = history
        self._prices = price_places(history.fields)
        self._series = tuple(history.market)
        self._count = len(history)
        seen = seen_places(history.values, history.quoted)
        rule = history.delist_after
        self._lifetimes = (
            None
            if rule is None
            else ArrivingLifetimes(history.calendar, seen, history.listed, rule)
        )
        self._take_over(
            history.times,
            history.values,
            np.stack([history.listed, history.quoted, history.tradable, seen]),
            np.stack([*history.market.values(), np.zeros(len(history))])[:-1],
        )

    def __len__(self) -> int:
        """Rows that are known, and kept."""
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
        """Take in the next row, and say what it is, see `FeatureStream.push`.

        What no panel can hold is refused, and nothing has changed then.
        """
        stamp = self._checked_time(time)
        series = market or {}
        if series.keys() != set(self._series):
            raise ValueError(f"series {sorted(self._series)} were wanted, found {sorted(series)}")
        row = self._shaped("values", np.asarray(values, np.float64), 2)
        masks = row_masks(
            row, self._prices, self._still_listed(stamp), self._mask("listed", listed),
            self._mask("quoted", quoted), self._mask("tradable", tradable),
        )  # fmt: skip
        self._append(stamp, row, masks, [series[name] for name in self._series])
        latest = self.panel(1)
        try:
            latest.check_rows()
        except ValueError:
            self.take_back()
            raise
        return latest

    def panel(self, rows: int | None = None) -> MarketData:
        """The last rows that are known, or all of them, without a copy."""
        first = 0 if rows is None else max(0, self._count - rows)
        cut = slice(first, self._count)
        times, values, masks, market = self._shown
        return self._like.with_checked_rows(
            times[cut], values[cut], dict(zip(self._series, market[:, cut], strict=True)),
            {"listed": masks[0, cut], "quoted": masks[1, cut], "tradable": masks[2, cut]},
        )  # fmt: skip

    def take_back(self) -> None:
        """Be as before the latest row, which somebody has refused after all."""
        self._count -= 1
        if self._lifetimes is not None:
            self._lifetimes.take_back()

    def forget(self, rows: int) -> None:
        """Keep no more of so many of the first rows."""
        if rows == 0:
            # All that is kept would be copied for nothing, with every row that comes.
            return
        cut = slice(rows, self._count)
        self._count -= rows
        self._take_over(
            self._times[cut], self._values[cut], self._masks[:, cut], self._market[:, cut]
        )

    def _take_over(
        self, times: NDArray[np.datetime64], values: Floats, masks: Bools, market: Floats
    ) -> None:
        """Go on with these rows, in memory with room for more: what was shown is not moved."""
        room = max(FEWEST, 2 * len(times))
        self._times, self._values = _roomy(times, 0, room), _roomy(values, 0, room)
        self._masks, self._market = _roomy(masks, 1, room), _roomy(market, 1, room)
        self._instants = self._times.view(np.int64)
        # Nobody but us writes there.
        self._shown = tuple(
            _read_only(one) for one in (self._times, self._values, self._masks, self._market)
        )

    def _append(self, stamp: np.datetime64, row: Floats, masks: Bools, market: list[float]) -> None:
        if self._count == len(self._times):
            self._take_over(self._times, self._values, self._masks, self._market)
        place = self._count
        self._times[place] = stamp
        self._values[place] = row
        self._masks[:, place] = masks
        if market:
            self._market[:, place] = market
        self._count += 1
        if self._lifetimes is not None:
            self._lifetimes.take(stamp, masks[3])

    def _still_listed(self, stamp: np.datetime64) -> Bools:
        """Assets that stay listed without being seen: a row of the mask, or none at first."""
        before: Bools = self._masks[0, max(0, self._count - 1) : self._count]
        return before if self._lifetimes is None else self._lifetimes.alive(stamp, before)

    def _checked_time(self, time: Any) -> np.datetime64:
        stamp: np.datetime64 = np.datetime64(time, "ns")
        instant = stamp.item()
        if instant is None or (self._count and instant <= self._instants[self._count - 1]):
            last = self._times[self._count - 1] if self._count else "none"
            raise ValueError(f"a time after {last} was wanted, found {stamp}")
        return stamp

    def _mask(self, name: str, given: ArrayLike | None) -> Bools | None:
        if given is None:
            return None
        mask = self._shaped(name, np.asarray(given), 1)
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must be true or false, was of {mask.dtype}")
        return mask

    def _shaped(self, name: str, given: NDArray[Any], axes: int) -> NDArray[Any]:
        wanted = self._like.values.shape[1 : 1 + axes]
        if given.shape != wanted:
            raise ValueError(f"{name} must be of shape {wanted}, was {given.shape}")
        return given


def _roomy(given: NDArray[Any], axis: int, room: int) -> NDArray[Any]:
    """The same in the first places of an array with room for more along an axis."""
    shape = (*given.shape[:axis], room, *given.shape[axis + 1 :])
    roomy = np.empty(shape, given.dtype)
    roomy[(slice(None),) * axis + (slice(given.shape[axis]),)] = given
    return roomy


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view
