"""Data problems and the policies that handle them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import accumulate
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sekai.config.checked import CheckedConfig

HINTS = {
    "file": "check that the file is complete and of the type that its name says",
    "column": "name columns by time=, asset=, fields= or rename=, or Policies(columns='ignore')",
    "key": "correct the source, or Policies(keys='drop_row')",
    "time_zone": "pass the time zone of the timestamps by timezone=, such as 'UTC'",
    "local_time": "correct the source, or Policies(keys='drop_row')",
    "unsorted": "sort the source, or Policies(unsorted='sort')",
    "duplicate": "Policies(duplicates='first') or 'last'",
    "number": "Policies(numbers='halt') or 'drop_row'",
    "infinite": "Policies(infinite='halt') or 'drop_row'",
    "price": "Policies(prices='halt') or 'drop_row'",
    "volume": "Policies(volumes='halt') or 'drop_row'",
    "bar": "Policies(bars='halt'), 'drop_row' or 'keep'",
    "missing": "Policies(missing='halt'), 'forward_fill' or 'drop_row'; "
    "for fields other than price and volume Policies(missing_other='keep')",
    "calendar": "Policies(calendars='union'), 'forward_fill' or 'intersection'",
    "gap": "Policies(gaps='allow'), or a longer longest_gap",
    "empty": "correct the names of assets=, or Policies(empty='drop')",
    "delisting": "pass listing=, or leave Policies(delist_after=None) to infer none",
    "listing": "Policies(listing='drop_row'), or correct the listing table",
    "market": "Policies(market='forward_fill') or 'keep'",
}
"""Remedy for each kind of problem."""

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """Data problem in a cell, a row, or a run of adjacent rows."""

    kind: str
    """Key of `HINTS`."""
    found: str
    """Description or offending value."""
    asset: str | None = None
    field: str | None = None
    time: np.datetime64 | None = None
    """Timestamp of the first affected row, in UTC."""
    until: np.datetime64 | None = None
    """Timestamp of the last affected row."""
    count: int = 1
    """Number of adjacent rows affected."""
    file: str | None = None
    policy: str = "error"
    """Policy that was applied; `drop` for values that no row shows."""

    def __str__(self) -> str:
        where = [] if self.asset is None else [self.asset]
        if self.field is not None:
            where.append(self.field)
        if self.time is not None:
            later = f" to {_short(self.until)} ({self.count} rows)" if self.count > 1 else ""
            where.append(f"at {_short(self.time)}{later}")
        location = f" {' '.join(where)}" if where else ""
        done = "" if self.policy == "error" else f" -> {self.policy}"
        return f"{self.kind}{location}: {self.found}{f' in {self.file}' if self.file else ''}{done}"


@dataclass(frozen=True, slots=True, eq=False)
class ProblemColumns(Sequence[Problem]):
    """Problems of one kind stored as columns; `Problem` objects are created on access."""

    kind: str
    policy: str
    field: str | None
    assets: NDArray[Any]
    """Asset names, one per problem."""
    times: NDArray[np.datetime64]
    until: NDArray[np.datetime64]
    counts: NDArray[np.int64]
    found: str | NDArray[Any]
    """Common description, or one value per problem."""
    files: Sequence[str | None] | str | None = None

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | Sequence[Problem]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        file = self.files if isinstance(self.files, str | None) else self.files[index]
        found = self.found if isinstance(self.found, str) else f"{self.found[index]}"
        return Problem(
            self.kind,
            found,
            str(self.assets[index]),
            self.field,
            self.times[index],
            self.until[index],
            int(self.counts[index]),
            file,
            self.policy,
        )


class Problems(Sequence[Problem]):
    """All problems in the order of the checks; `str()` gives a report."""

    def __init__(self, parts: Iterable[Problem | ProblemColumns] = ()) -> None:
        self._parts = [part for part in parts if isinstance(part, Problem) or len(part)]
        self._sizes = [1 if isinstance(part, Problem) else len(part) for part in self._parts]
        self._ends = list(accumulate(self._sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | Sequence[Problem]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} problems")
        number = bisect_right(self._ends, position)
        part = self._parts[number]
        if isinstance(part, Problem):
            return part
        return part[position - (self._ends[number] - self._sizes[number])]

    @property
    def counts(self) -> dict[str, int]:
        """Number of affected rows by kind."""
        counts: Counter[str] = Counter()
        for part in self._parts:
            counts[part.kind] += part.count if isinstance(part, Problem) else int(part.counts.sum())
        return dict(counts)

    def __str__(self) -> str:
        if not len(self):
            return "no problems"
        counts = self.counts
        shown = max(1, SHOWN // len(counts))
        lines = []
        for kind, count in counts.items():
            lines.append(f"{count} x {kind}: {HINTS[kind]}")
            lines += [f"  {problem}" for problem in self._first(kind, shown)]
        return "\n".join(lines)

    # A notebook shows the report of `inspect` without a call of print.
    __repr__ = __str__

    def _first(self, kind: str, number: int) -> list[Problem]:
        first: list[Problem] = []
        for part in self._parts:
            if part.kind == kind:
                rest = number - len(first)
                first += [part] if isinstance(part, Problem) else part[:rest]
            if len(first) >= number:
                break
        return first


def _short(time: np.datetime64 | None) -> str:
    """Timestamp without trailing zeros."""
    text = str(time)
    for zeros in (".000000000", "T00:00:00"):
        text = text.removesuffix(zeros)
    return text


HALT = ("error", "halt", "drop_row")

CHOICES = {
    "columns": ("error", "ignore"),
    "keys": ("error", "drop_row"),
    "unsorted": ("error", "sort"),
    "duplicates": ("error", "first", "last"),
    "numbers": HALT,
    "infinite": HALT,
    "prices": HALT,
    "volumes": HALT,
    "bars": (*HALT, "keep"),
    "missing": (*HALT, "forward_fill"),
    "missing_other": ("error", "keep", "forward_fill", "drop_row"),
    "calendars": ("error", "union", "forward_fill", "intersection"),
    "gaps": ("error", "allow"),
    "empty": ("error", "drop"),
    "listing": ("error", "drop_row"),
    "market": ("error", "keep", "forward_fill"),
}
"""Allowed values of each policy; the first is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies(CheckedConfig):
    """Handling of each kind of data problem; the default of every policy is `error`.

    * `error`: all problems are reported and nothing is read.
    * `halt`: a wrong value becomes NaN, and the asset is not quoted in that row.
    * `drop_row`: the row of the asset is left out; a time without any row left as well.
    * `forward_fill`: the last known value of the asset is repeated. A repeated price is visible
      but not a quote: the asset is neither quoted nor tradable in that row. A repeated volume
      keeps the quote and makes the asset not tradable, because that volume was not observed.
    * `keep`: the value stays as it is.

    Nothing is ever filled from a later row. Assets that begin later or end earlier than others
    are not a problem: see the mask `listed`.
    """

    columns: str = "error"
    """Columns that are not numeric, or that only some of the files have."""
    keys: str = "error"
    """Rows without a time or an asset, with an unreadable time, or with a local time that is
    skipped or ambiguous because of a clock change."""
    unsorted: str = "error"
    """Rows of an asset that go back in time within a file."""
    duplicates: str = "error"
    """Duplicate timestamps of an asset: keep the `first` or the `last` row."""
    numbers: str = "error"
    """Text where a number is expected."""
    infinite: str = "error"
    """Infinite numbers."""
    prices: str = "error"
    """Prices of 0 or less."""
    volumes: str = "error"
    """Volumes below 0."""
    bars: str = "error"
    """Bars with a high below the low, or with an open or close outside the two."""
    missing: str = "error"
    """Missing prices and volumes in a row that exists."""
    missing_other: str = "error"
    """Other missing values in a row that exists."""
    calendars: str = "error"
    """Missing rows of an asset between its first and its last, at times that others have. `union`
    treats them as halts, `forward_fill` as halts with the last prices, and `intersection` keeps
    only times at which every asset has a row."""
    gaps: str = "error"
    """Periods without any row that are longer than `longest_gap`."""
    longest_gap: timedelta = timedelta(days=14)
    """Longest time without rows; four times the usual interval if that is more."""
    empty: str = "error"
    """Assets without a single quote."""
    listing: str = "error"
    """Rows of an asset at a time at which the listing table says it is not listed."""
    market: str = "error"
    """Times at which a market-wide series has no value, or several. `forward_fill` shows the last
    value stamped at or before a row; without it a value between two rows belongs to none."""
    fill_limit: int | None = None
    """Most consecutive rows to forward fill; None for as long as the asset is listed."""
    delist_after: int | None = None
    """Trading days (days with a row) without a row of an asset after which it counts as delisted,
    where no table, column or instruments file says when it is listed. Each inferred delisting is
    reported in `MarketData.repairs`; None infers none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            choices = CHOICES.get(field.name)
            if choices and value not in choices:
                raise ValueError(f"{field.name} must be one of {choices}, got {value!r}")
        if self.longest_gap <= timedelta(0):
            raise ValueError(f"longest_gap must be above 0, got {self.longest_gap}")
        if self.fill_limit is not None and self.fill_limit < 1:
            raise ValueError(f"fill_limit must be at least 1, or None, got {self.fill_limit}")
        checked_delist_after(self.delist_after)


def checked_delist_after(delist_after: int | None) -> int | None:
    """Validate a number of trading days; None stands for no rule.

    Raises:
        ValueError: if it is not an integer of at least 1.
    """
    if delist_after is None:
        return None
    is_integer = isinstance(delist_after, int | np.integer) and not isinstance(delist_after, bool)
    if not is_integer or delist_after < 1:
        raise ValueError(
            f"delist_after must be an integer of at least 1 trading day, or None to infer no "
            f"delisting; got {delist_after!r}"
        )
    return int(delist_after)
