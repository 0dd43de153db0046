"""What is wrong with data: where, how often, and what was done about it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["HINTS", "Findings", "Problem", "Problems"]

HINTS = {
    "file": "see that the file is whole and of the kind that its name says",
    "column": "name columns by time=, asset=, fields= or rename=, or Policies(columns='ignore')",
    "key": "mend the source, or Policies(keys='drop_row')",
    "time_zone": "say where the stamps are from by timezone=, such as 'UTC'",
    "local_time": "mend the source, or Policies(keys='drop_row')",
    "unsorted": "sort the source, or Policies(unsorted='sort')",
    "duplicate": "Policies(duplicates='first') or 'last'",
    "number": "Policies(numbers='halt') or 'drop_row'",
    "infinite": "Policies(infinite='halt') or 'drop_row'",
    "price": "Policies(prices='halt') or 'drop_row'",
    "volume": "Policies(volumes='halt') or 'drop_row'",
    "bar": "Policies(bars='halt'), 'drop_row' or 'keep'",
    "missing": "Policies(missing='halt'), 'forward_fill' or 'drop_row'; "
    "for what is neither price nor volume Policies(missing_other='keep')",
    "calendar": "Policies(calendars='union'), 'forward_fill' or 'intersection'",
    "gap": "Policies(gaps='allow'), or a longer longest_gap",
    "empty": "Policies(empty='drop')",
    "delisting": "tell listing=, or leave Policies(delist_after=None) to infer none",
    "listing": "Policies(listing='drop_row'), or mend the table of listings",
    "market": "Policies(market='forward_fill') or 'keep'",
}
"""The kinds of problems, and what a user can do about each."""

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: a cell, a row, or a run of neighbouring rows."""

    kind: str
    """One of `HINTS`."""
    found: str
    """What was found there."""
    asset: str | None = None
    field: str | None = None
    time: np.datetime64 | None = None
    """The stamp of the first row at fault, in UTC."""
    until: np.datetime64 | None = None
    """The stamp of the last: the same if it is one row."""
    count: int = 1
    """How many neighbouring rows are at fault."""
    file: str | None = None
    policy: str = "error"
    """What was done about it."""

    def __str__(self) -> str:
        where = [] if self.asset is None else [self.asset]
        if self.field is not None:
            where.append(self.field)
        if self.time is not None:
            later = f" to {_short(self.until)} ({self.count} rows)" if self.count > 1 else ""
            where.append(f"at {_short(self.time)}{later}")
        place = f" {' '.join(where)}" if where else ""
        done = "" if self.policy == "error" else f" -> {self.policy}"
        return f"{self.kind}{place}: {self.found}{f' in {self.file}' if self.file else ''}{done}"


@dataclass(frozen=True, slots=True, eq=False)
class Findings(Sequence[Problem]):
    """Many problems of one kind, kept as columns: a record is made when it is looked at."""

    kind: str
    policy: str
    field: str | None
    assets: NDArray[Any]
    """Names, one a problem."""
    times: NDArray[np.datetime64]
    until: NDArray[np.datetime64]
    counts: NDArray[np.int64]
    found: str | NDArray[Any]
    """What was found everywhere, or one value a problem."""
    files: Sequence[str | None] | str | None = None

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | Sequence[Problem]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        file = self.files if isinstance(self.files, str | None) else self.files[index]
        found = self.found if isinstance(self.found, str) else f"{self.found[index]}"
        return Problem(
            self.kind, found, str(self.assets[index]), self.field, self.times[index],
            self.until[index], int(self.counts[index]), file, self.policy,
        )  # fmt: skip


class Problems(Sequence[Problem]):
    """All problems that were found, in the order of the checks: a report that can be printed."""

    def __init__(self, parts: Iterable[Problem | Findings] = ()) -> None:
        """Take records and columns of records."""
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
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"a problem from 0 to {len(self) - 1} was wanted, found {index}")
        part = bisect_right(self._ends, place)
        chosen = self._parts[part]
        if isinstance(chosen, Problem):
            return chosen
        return chosen[place - (self._ends[part] - self._sizes[part])]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are at fault, by kind."""
        counts: Counter[str] = Counter()
        for part in self._parts:
            counts[part.kind] += part.count if isinstance(part, Problem) else int(part.counts.sum())
        return dict(counts)

    def __str__(self) -> str:
        """The first problems of each kind, how many there are, and what can be done."""
        if not len(self):
            return "no problems"
        counts = self.counts
        shown = max(1, SHOWN // len(counts))
        lines = []
        for kind, count in counts.items():
            lines.append(f"{count} x {kind}: {HINTS[kind]}")
            lines += [f"  {problem}" for problem in self._first(kind, shown)]
        return "\n".join(lines)

    def _first(self, kind: str, number: int) -> list[Problem]:
        first: list[Problem] = []
        for part in self._parts:
            if part.kind == kind:
                wanted = number - len(first)
                first += [part] if isinstance(part, Problem) else part[:wanted]
            if len(first) >= number:
                break
        return first


def _short(time: np.datetime64 | None) -> str:
    """A stamp without the zeros at its end."""
    text = str(time)
    for zeros in (".000000000", "T00:00:00"):
        text = text.removesuffix(zeros)
    return text
