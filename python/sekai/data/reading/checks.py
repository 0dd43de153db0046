"""Looks at every cell of a panel, and does what the user's policies say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar
from sekai.data.market_data import PRICE_FIELDS
from sekai.data.policies import Policies
from sekai.data.problems import Findings, Problem
from sekai.data.reading.assemble import Assembled
from sekai.data.reading.columns import VOLUME_FIELDS
from sekai.data.reading.ledger import Ledger

__all__ = ["Fill", "Verdict", "check", "note"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK_ROWS = 256
"""Rows that are compared at a time, so that what stands between is small."""
ROUNDING = 1e-9
"""How far an open or close may be outside of a bar, as a fraction: prices adjusted for splits
and dividends are rounded each for itself."""


@dataclass(slots=True)
class Fill:
    """Cells of a field to which its last value is to be repeated."""

    place: int
    """The field's."""
    holes: Bools
    kind: str | None
    """The kind of problem to note; None if it is noted already."""


@dataclass(slots=True)
class Verdict:
    """What is to become of the rows."""

    halted: Bools
    dropped: Bools
    fills: list[Fill] = field(default_factory=list)


def check(panel: Assembled, policies: Policies, ledger: Ledger) -> Verdict:
    """Note every problem; wrong values become NaN where a policy says so, nothing is filled."""
    shape = panel.present.shape
    verdict = Verdict(np.zeros(shape, np.bool_), np.zeros(shape, np.bool_))
    inspector = _Inspector(panel, policies, ledger, verdict)
    for place, name in enumerate(panel.fields):
        # Before the others, which make holes of their own.
        inspector.check_missing(place, name)
        inspector.check_values(place, name)
    inspector.check_bars()
    inspector.check_calendars()
    inspector.check_gaps()
    return verdict


@dataclass(slots=True)
class _Inspector:
    panel: Assembled
    policies: Policies
    ledger: Ledger
    verdict: Verdict

    def check_values(self, place: int, name: str) -> None:
        """Text, infinite numbers, prices of 0 or less, amounts below 0."""
        column = self.panel.values[:, :, place]
        unread = np.zeros(column.shape, np.bool_)
        unread.ravel()[self.panel.unread[name]] = True
        self._spoil(unread, self.policies.numbers, column)
        infinite = np.isinf(column)
        self._note("infinite", self.policies.infinite, infinite, name, column)
        self._spoil(infinite, self.policies.infinite, column)
        if name in PRICE_FIELDS:
            low, kind, policy = column <= 0, "price", self.policies.prices
        elif name in VOLUME_FIELDS:
            low, kind, policy = column < 0, "volume", self.policies.volumes
        else:
            return
        self._note(kind, policy, low & ~infinite, name, column)
        self._spoil(low & ~infinite, policy, column)

    def check_bars(self) -> None:
        """Bars whose prices contradict each other."""
        fields, values = self.panel.fields, self.panel.values
        if not {"high", "low"} <= set(fields):
            return
        high, low = values[:, :, fields.index("high")], values[:, :, fields.index("low")]
        policy = self.policies.bars
        inverted = high < low
        self._note("bar", policy, inverted, "high", "a high below the low")
        wrong = inverted
        for name in ("open", "close"):
            if name in fields:
                price = values[:, :, fields.index(name)]
                outside = _outside(price, low, high) & ~inverted
                self._note("bar", policy, outside, name, f"a {name} outside of low and high")
                wrong = wrong | outside
        for name in ("open", "high", "low", "close"):
            if name in fields:
                self._spoil(wrong, policy, values[:, :, fields.index(name)])

    def check_missing(self, place: int, name: str) -> None:
        """Nothing where a row has something of other fields."""
        column = self.panel.values[:, :, place]
        holes = np.isnan(column) & self.panel.present
        holes.ravel()[self.panel.unread[name]] = False
        for mask in ("listed", "quoted"):
            if mask in self.panel.masks:
                holes &= self.panel.masks[mask]
        traded = name in (*PRICE_FIELDS, *VOLUME_FIELDS)
        policy = self.policies.missing if traded else self.policies.missing_other
        if policy == "forward_fill" and holes.any():
            self.verdict.fills.append(Fill(place, holes, "missing"))
        else:
            self._note("missing", policy, holes, name, "no value")
            self._spoil(holes, policy, column)

    def check_calendars(self) -> None:
        """Rows that an asset lacks and others have."""
        present = self.panel.present
        begun = np.maximum.accumulate(present, axis=0)
        returns: Bools = np.maximum.accumulate(present[::-1], axis=0)[::-1]
        absent: Bools = begun & ~present
        absent[~present.any(axis=1)] = False
        if self.panel.listings is not None:
            absent &= self.panel.listings
        lacking = absent & returns
        policy = self.policies.calendars
        self._note("calendar", policy, lacking, None, "no row, and other assets have one")
        if policy == "forward_fill":
            for place, name in enumerate(self.panel.fields):
                if name in PRICE_FIELDS:
                    # Not only where the asset returns: nobody knows that beforehand.
                    self.verdict.fills.append(Fill(place, absent, None))

    def check_gaps(self) -> None:
        """Times at which no asset has a row for too long."""
        times = self.panel.times[self.panel.present.any(axis=1)]
        if len(times) < 2:
            return
        usual = Calendar(times.astype("datetime64[ns]")).frequency.nanoseconds
        longest = max(round(self.policies.longest_gap / timedelta(microseconds=1)) * 1000,
                      4 * usual)  # fmt: skip
        for row in np.flatnonzero(np.diff(times) > longest):
            before, after = times[row : row + 2].astype("datetime64[ns]")
            days = (after - before) / np.timedelta64(1, "D")
            found = f"no row of any asset for {days:g} days"
            policy = self.policies.gaps
            self.ledger.add(Problem("gap", found, time=before, until=after, policy=policy))

    def _spoil(self, where: Bools, policy: str, column: Floats) -> None:
        if policy == "halt":
            column[where] = np.nan
            self.verdict.halted |= where
        elif policy == "drop_row":
            self.verdict.dropped |= where

    def _note(
        self, kind: str, policy: str, where: Bools, name: str | None, found: str | Floats
    ) -> None:
        note(self.panel, self.ledger, kind, policy, where, name, found)


def note(
    panel: Assembled, ledger: Ledger, kind: str, policy: str, where: Bools, name: str | None,
    found: str | Floats,
) -> None:  # fmt: skip
    """Write down the cells of a field that are at fault, a run of neighbouring rows a problem."""
    if not where.any():
        return
    assets, rows, counts = _runs(where)
    stamps = panel.times.astype("datetime64[ns]")
    value = found if isinstance(found, str) else found[rows, assets]
    files = panel.files_at(rows * len(panel.assets) + assets) if kind != "calendar" else None
    ledger.add(Findings(
        kind, policy, name, panel.names[assets], stamps[rows], stamps[rows + counts - 1], counts,
        value, files,
    ))  # fmt: skip


def _outside(price: Floats, low: Floats, high: Floats) -> Bools:
    outside = np.zeros(price.shape, np.bool_)
    for start in range(0, len(price), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        slack = np.abs(price[rows]) * ROUNDING
        outside[rows] = (price[rows] > high[rows] + slack) | (price[rows] < low[rows] - slack)
    return outside


def _runs(where: Bools) -> tuple[Ints, Ints, Ints]:
    """Runs of true cells along time: their assets, first rows and lengths."""
    by_asset = np.zeros((where.shape[1], where.shape[0] + 2), np.int8)
    by_asset[:, 1:-1] = where.T
    edges = np.diff(by_asset, axis=1)
    assets, first = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    return assets, first, end - first
