"""Rows of a market as they arrive: checked, and with what they leave unsaid filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sekai.data.market_data import DELIST_AFTER, PRICE_FIELDS, MarketData

__all__ = ["ArrivingRows"]

Floats = NDArray[np.float64]


class _Column:
    """Values that grow at the end; what is there is never moved under a view."""

    def __init__(self, given: NDArray[Any]) -> None:
        self.count = len(given)
        self._store = np.empty((max(64, 2 * self.count), *given.shape[1:]), given.dtype)
        self._store[: self.count] = given

    def append(self, row: Any) -> None:
        if self.count == len(self._store):
            grown = np.empty((2 * self.count, *self._store.shape[1:]), self._store.dtype)
            grown[: self.count] = self._store
            self._store = grown
        self._store[self.count] = row
        self.count += 1

    def forget(self, rows: int) -> None:
        kept = self._store[rows : self.count]
        self.count = len(kept)
        self._store = np.empty((max(64, 2 * self.count), *kept.shape[1:]), kept.dtype)
        self._store[: self.count] = kept

    def last(self, rows: int) -> NDArray[Any]:
        view = self._store[max(0, self.count - rows) : self.count]
        # Nobody writes here again.
        view.flags.writeable = False
        return view


class ArrivingRows:
    """A history and the rows that came after it."""

    def __init__(self, history: MarketData) -> None:
        """Begin with `history`."""
        self._like = history
        self._times = _Column(history.times)
        self._values = _Column(history.values)
        self._masks = {
            name: _Column(getattr(history, name)) for name in ("listed", "quoted", "tradable")
        }
        self._market = {name: _Column(series) for name, series in history.market.items()}
        self._seen = _Column(_seen(history.values, history.quoted))

    def __len__(self) -> int:
        """Rows that are known, and kept."""
        return self._times.count

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
        """Take in the next row, and say what it is, see `FeatureStream.push`."""
        masks = {"quoted": quoted, "tradable": tradable, "listed": listed}
        latest = self._checked(time, values, masks, market or {})
        self._times.append(latest.times[0])
        self._values.append(latest.values[0])
        for name, column in self._masks.items():
            column.append(getattr(latest, name)[0])
        for name, column in self._market.items():
            column.append(latest.market[name][0])
        self._seen.append(_seen(latest.values, latest.quoted)[0])
        return latest

    def panel(self, rows: int | None = None) -> MarketData:
        """The last rows that are known, or all of them, without a copy."""
        wanted = self._times.count if rows is None else rows
        masks = {name: kept.last(wanted) for name, kept in self._masks.items()}
        series = {name: kept.last(wanted) for name, kept in self._market.items()}
        times, values = self._times.last(wanted), self._values.last(wanted)
        return self._like.with_checked_rows(times, values, series, masks)

    def take_back(self) -> None:
        """Be as before the latest row, which somebody has refused after all."""
        for column in self._columns():
            column.count -= 1

    def forget(self, rows: int) -> None:
        """Keep no more of so many of the first rows."""
        if rows == 0:
            # All that is kept would be copied for nothing, with every row that comes.
            return
        for column in self._columns():
            column.forget(rows)

    def _columns(self) -> list[_Column]:
        kept = (*self._masks.values(), *self._market.values())
        return [self._times, self._values, self._seen, *kept]

    def _checked(
        self,
        time: Any,
        values: ArrayLike,
        masks: Mapping[str, ArrayLike | None],
        market: Mapping[str, float],
    ) -> MarketData:
        """The row as a panel of one: it refuses what no panel can hold, and nothing has moved."""
        stamp = np.datetime64(time, "ns")
        if self._times.count and not stamp > self._times.last(1)[0]:
            raise ValueError(f"a time after {self._times.last(1)[0]} was wanted, found {stamp}")
        if set(market) != set(self._market):
            raise ValueError(f"series {sorted(self._market)} were wanted, found {sorted(market)}")
        row = self._row("values", np.array(values, np.float64), 2)
        given = {n: self._mask(n, m) for n, m in masks.items() if m is not None}
        if "quoted" not in given:
            given["quoted"] = self._priced(row)
        if "tradable" not in given:
            given["tradable"] = given["quoted"]
        if "listed" not in given:
            given["listed"] = self._in_life(row, given["quoted"])
        series = {name: np.array([number], np.float64) for name, number in market.items()}
        return self._like.with_next_row(np.array([stamp]), row, series, given)

    def _mask(self, name: str, given: ArrayLike) -> NDArray[np.bool_]:
        mask = self._row(name, np.array(given), 1)
        if mask.dtype != np.bool_:
            raise ValueError(f"{name} must be true or false, was of {mask.dtype}")
        return mask

    def _row(self, name: str, given: NDArray[Any], axes: int) -> NDArray[Any]:
        wanted = self._like.values.shape[1 : 1 + axes]
        if given.shape != wanted:
            raise ValueError(f"{name} must be of shape {wanted}, was {given.shape}")
        return given[None]

    def _priced(self, row: Floats) -> NDArray[np.bool_]:
        fields = self._like.fields
        prices = [place for place, name in enumerate(fields) if name in PRICE_FIELDS]
        return np.asarray(np.isfinite(row[:, :, prices or slice(None)]).all(axis=2))

    def _in_life(self, row: Floats, quoted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which assets `lifetimes` would call listed, without going through all rows again."""
        lately = self._seen.last(DELIST_AFTER - 1).any(axis=0)
        return _seen(row, quoted) | lately


def _seen(values: Floats, quoted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which assets show anything in which rows."""
    return np.asarray(np.isfinite(values).any(axis=2) | quoted)
