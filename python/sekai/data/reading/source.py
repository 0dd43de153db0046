"""Where rows come from: Arrow tables, piece by piece, as often as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["FILE_NAME", "Part", "Piece", "Selection", "Source"]

FILE_NAME = "the file's name"
"""The column, so to say, that a file's name makes up."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a table: what is known of it before its rows are read."""

    schema: Any
    """Its Arrow schema."""
    file: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    """Columns with one value in all its rows, such as those told by the names of folders."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a part."""

    table: Any
    """An Arrow table or record batch."""
    part: Part


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows and columns are wanted: what lets a source leave out the others early.

    A source may give more rows than these; the exact cut is made where they are decoded.
    """

    columns: Sequence[str]
    time: str
    asset: str
    assets: Sequence[str] | None = None
    start: int | None = None
    """Nanoseconds in UTC, a day and `known_after` before the first row wanted."""
    stop: int | None = None
    """As much after the last row wanted."""


class Source(Protocol):
    """Parts that can be read again and again, always in the same order."""

    @property
    def parts(self) -> Sequence[Part]:
        """Files or tables."""

    @property
    def assets(self) -> Sequence[str]:
        """Assets that must be there, as far as that is known without reading rows."""

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """The rows, in order; columns that a part does not have are left out."""
