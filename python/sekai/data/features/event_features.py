"""What a row knows of events: the latest value, sums, and sums that fade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.features.events import Events
from sekai.data.features.rolling import pathless
from sekai.data.market_data import MarketData

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Decay", "Latest", "Sum"]

Floats = NDArray[np.float64]
FADED = 64
"""Half-lives after which nothing is left of a value but the last bits of another."""


@dataclass(frozen=True)
class _OfEvents:
    events: Events

    def perturb_after(self, time: Any, rng: np.random.Generator) -> Self:
        """The same feature of events that differ where they were published after `time`."""
        return replace(self, events=self.events.perturb_after(time, rng))


@dataclass(frozen=True)
class Latest(_OfEvents):
    """The value about the latest time, as last published, and its age in days."""

    age: bool
    longest: int | None

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets by one or two channels; NaN where nothing is known."""
        stamps = data.calendar.nanoseconds
        shown = np.full((len(data), len(data.assets), 1 + self.age), np.nan)
        for columns, places in _by_asset(self.events, data):
            published, values = _news(self.events, places)
            row = published.searchsorted(stamps, "right") - 1
            age = stamps - published[row]
            known = row >= 0 if self.longest is None else (row >= 0) & (age <= self.longest)
            parts = [values[row], age / DAY][: 1 + self.age]
            shown[:, columns] = np.where(known[:, None], np.stack(parts, 1), np.nan)[:, None]
        return shown


@dataclass(frozen=True)
class Sum(_OfEvents):
    """The sum of first publications after the stamp `rows` rows ago, up to the row's own."""

    rows: int

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets; NaN in the first rows, whose window is not all there."""
        stamps = data.calendar.nanoseconds
        shown = np.full((len(data), len(data.assets)), np.nan)
        shown[self.rows :] = 0.0
        for columns, places in _by_asset(self.events, data):
            for published, value in _firsts(self.events, places):
                begin = int(stamps.searchsorted(published, "left"))
                shown[begin : begin + self.rows, columns] += value
        return shown


@dataclass(frozen=True)
class Decay(_OfEvents):
    """The sum of first publications, each halved in every half-life."""

    half_life: int

    def __call__(self, data: MarketData) -> Floats:
        """Rows by assets; 0 where nothing is known."""
        stamps = data.calendar.nanoseconds
        shown = np.zeros((len(data), len(data.assets)))
        for columns, places in _by_asset(self.events, data):
            # One by one in order of publication: what comes later cannot regroup the sum.
            for published, value in _firsts(self.events, places):
                first = int(stamps.searchsorted(published, "left"))
                last = int(stamps.searchsorted(published + FADED * self.half_life, "right"))
                halvings = (stamps[first:last] - published) / self.half_life
                shown[first:last, columns] += value * pathless(np.exp2, -halvings)[:, None]
        return shown


def _by_asset(events: Events, data: MarketData) -> Iterator[tuple[list[int], NDArray[np.intp]]]:
    """The columns that events are about, and which events those are."""
    if events.assets is None:
        if len(events):
            yield list(range(len(data.assets))), np.arange(len(events))
        return
    names = np.asarray(events.assets, dtype=object)
    known = set(events.assets) & set(data.assets)
    if len(events) and not known:
        raise ValueError(
            f"events of {', '.join(data.assets[:5])} were wanted, found those of "
            f"{', '.join(sorted(set(events.assets))[:5])}"
        )
    for name in sorted(known):
        yield [data.assets.index(name)], np.flatnonzero(names == name)


def _news(events: Events, places: NDArray[np.intp]) -> tuple[NDArray[np.int64], Floats]:
    """Publications in order that tell of no earlier time than one before: what is latest."""
    order = places[np.argsort(events.published[places], kind="stable")]
    about = events.times[order].astype(np.int64)
    newest = about >= np.maximum.accumulate(about)
    order = order[newest]
    return events.published[order].astype(np.int64), events.values[order]


def _firsts(events: Events, places: NDArray[np.intp]) -> Iterator[tuple[int, float]]:
    first = events.firsts[places]
    order = places[first][np.argsort(events.published[places[first]], kind="stable")]
    stamps = events.published[order].astype(np.int64)
    return zip(stamps.tolist(), events.values[order].tolist(), strict=True)
