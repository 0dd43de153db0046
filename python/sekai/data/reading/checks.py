"""Validation of every cell of a panel, with the actions that policies ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar
from sekai.data.corporate_actions import ACTION_FIELDS
from sekai.data.market_data import PRICE_FIELDS
from sekai.data.problems import Policies, Problem, ProblemColumns
from sekai.data.reading.assemble import ProblemLog, RawPanel
from sekai.data.reading.options import VOLUME_FIELDS

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK_ROWS = 256
"""Rows compared at a time, which bounds memory."""
ROUNDING = 1e-9
"""Relative tolerance for an open or close outside of low and high: prices adjusted for splits and
dividends are rounded independently."""


@dataclass(slots=True)
class Fill:
    """Missing cells of a field to forward fill."""

    field: int
    """Index of the field."""
    holes: Bools
    kind: str | None
    """Kind of problem to report; None if it is reported already."""


@dataclass(slots=True)
class RowActions:
    """Actions on rows that follow from the policies."""

    halted: Bools
    dropped: Bools
    fills: list[Fill] = field(default_factory=list)


def check(panel: RawPanel, policies: Policies, log: ProblemLog) -> RowActions:
    """Report every problem; set wrong values to NaN where a policy asks for it."""
    shape = panel.present.shape
    actions = RowActions(np.zeros(shape, np.bool_), np.zeros(shape, np.bool_))
    inspector = _Inspector(panel, policies, log, actions)
    for index, name in enumerate(panel.fields):
        # Before the other checks, which set further values to NaN.
        inspector.check_missing(index, name)
        inspector.check_values(index, name)
    inspector.check_bars()
    inspector.check_calendars()
    inspector.check_gaps()
    return actions


@dataclass(slots=True)
class _Inspector:
    panel: RawPanel
    policies: Policies
    log: ProblemLog
    actions: RowActions

    def check_values(self, index: int, name: str) -> None:
        """Check for text, infinite numbers, prices of 0 or less, and negative amounts."""
        column = self.panel.values[:, :, index]
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
        """Check that the prices of each bar are consistent."""
        fields, values = self.panel.fields, self.panel.values
        if not {"high", "low"} <= set(fields):
            return
        high, low = values[:, :, fields.index("high")], values[:, :, fields.index("low")]
        policy = self.policies.bars
        inverted = high < low
        self._note("bar", policy, inverted, "high", "high below low")
        wrong = inverted
        for name in ("open", "close"):
            if name in fields:
                price = values[:, :, fields.index(name)]
                outside = _outside(price, low, high) & ~inverted
                self._note("bar", policy, outside, name, f"{name} outside of low and high")
                wrong = wrong | outside
        for name in ("open", "high", "low", "close"):
            if name in fields:
                self._spoil(wrong, policy, values[:, :, fields.index(name)])

    def check_missing(self, index: int, name: str) -> None:
        """Check for missing values in rows that exist."""
        if name in ACTION_FIELDS:
            return
        column = self.panel.values[:, :, index]
        holes = np.isnan(column) & self.panel.present
        holes.ravel()[self.panel.unread[name]] = False
        for mask in ("listed", "quoted"):
            if mask in self.panel.masks:
                holes &= self.panel.masks[mask]
        traded = name in (*PRICE_FIELDS, *VOLUME_FIELDS)
        policy = self.policies.missing if traded else self.policies.missing_other
        if policy == "forward_fill" and holes.any():
            self.actions.fills.append(Fill(index, holes, "missing"))
        else:
            self._note("missing", policy, holes, name, "missing value")
            self._spoil(holes, policy, column)

    def check_calendars(self) -> None:
        """Check for missing rows of an asset at times that other assets have."""
        present = self.panel.present
        begun = np.maximum.accumulate(present, axis=0)
        returns: Bools = np.maximum.accumulate(present[::-1], axis=0)[::-1]
        absent: Bools = begun & ~present
        absent[~present.any(axis=1)] = False
        if self.panel.listings is not None:
            absent &= self.panel.listings
        policy = self.policies.calendars
        self._note(
            "calendar", policy, absent & returns, None, "missing row at a time of other assets"
        )
        if policy == "forward_fill":
            for index, name in enumerate(self.panel.fields):
                if name in PRICE_FIELDS:
                    # Also where the asset does not return, which is not known in advance.
                    self.actions.fills.append(Fill(index, absent, None))

    def check_gaps(self) -> None:
        """Check for long periods without a row of any asset."""
        times = self.panel.times[self.panel.present.any(axis=1)]
        if len(times) < 2:
            return
        usual = Calendar(times.astype("datetime64[ns]")).frequency.nanoseconds
        longest = max(
            round(self.policies.longest_gap / timedelta(microseconds=1)) * 1000, 4 * usual
        )
        for row in np.flatnonzero(np.diff(times) > longest):
            before, after = times[row : row + 2].astype("datetime64[ns]")
            days = (after - before) / np.timedelta64(1, "D")
            message = f"no row of any asset for {days:g} days"
            policy = self.policies.gaps
            self.log.add(Problem("gap", message, time=before, until=after, policy=policy))

    def _spoil(self, where: Bools, policy: str, column: Floats) -> None:
        if policy == "halt":
            column[where] = np.nan
            self.actions.halted |= where
        elif policy == "drop_row":
            self.actions.dropped |= where

    def _note(
        self, kind: str, policy: str, where: Bools, name: str | None, value: str | Floats
    ) -> None:
        add_cells(self.panel, self.log, kind, policy, where, name, value)


def add_cells(
    panel: RawPanel,
    log: ProblemLog,
    kind: str,
    policy: str,
    where: Bools,
    name: str | None,
    value: str | Floats,
) -> None:
    """Report cells of a field, one problem per run of adjacent rows."""
    if not where.any():
        return
    assets, rows, counts = _runs(where)
    times = panel.times.astype("datetime64[ns]")
    files = panel.files_at(rows * len(panel.assets) + assets) if kind != "calendar" else None
    log.add(
        ProblemColumns(
            kind,
            policy,
            name,
            panel.names[assets],
            times[rows],
            times[rows + counts - 1],
            counts,
            value if isinstance(value, str) else value[rows, assets],
            files,
        )
    )


def _outside(price: Floats, low: Floats, high: Floats) -> Bools:
    outside = np.zeros(price.shape, np.bool_)
    for start in range(0, len(price), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        slack = np.abs(price[rows]) * ROUNDING
        outside[rows] = (price[rows] > high[rows] + slack) | (price[rows] < low[rows] - slack)
    return outside


def _runs(where: Bools) -> tuple[Ints, Ints, Ints]:
    """Runs of True along time: their assets, first rows and lengths."""
    by_asset = np.zeros((where.shape[1], where.shape[0] + 2), np.int8)
    by_asset[:, 1:-1] = where.T
    edges = np.diff(by_asset, axis=1)
    assets, first = np.nonzero(edges == 1)
    _, end = np.nonzero(edges == -1)
    return assets, first, end - first
