"""Puts rows, wherever they come from, into one array of times, assets and fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.reading.columns import refuse
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.numbers import decode_flags, decode_numbers
from sekai.data.reading.options import Options
from sekai.data.reading.source import Piece, Source
from sekai.data.reading.stamps import NO_TIME
from sekai.data.reading.survey import Keys, Survey, decode_keys, runs_of, widened

__all__ = ["Assembled", "assemble"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(slots=True)
class Assembled:
    """A panel of what was found, as it was found."""

    times: Ints
    assets: tuple[str, ...]
    fields: tuple[str, ...]
    values: Floats
    """Times by assets by fields, NaN where there is nothing."""
    present: Bools
    """Where there was a row."""
    masks: dict[str, Bools]
    market: dict[str, Floats]
    disputed: dict[str, Bools]
    """Times at which rows disagree on a series of the market."""
    unread: dict[str, Ints]
    """The cells, counted through times by assets, in which a field was text that is no number."""
    files: list[str | None]
    file_of: NDArray[Any] | None
    """Which file a row came from; None if there is only one."""
    timezone: str | None = None
    listings: Bools | None = None
    """Where assets are listed, if the source itself says it of every one."""
    count: int = 0
    """How many rows there are."""

    @property
    def names(self) -> NDArray[Any]:
        """The assets as an array, to be indexed by many places at once."""
        return np.array(self.assets, object)

    def files_at(self, cells: Ints) -> list[str | None] | str | None:
        """The files that rows came from."""
        if self.file_of is None:
            return self.files[0] if self.files else None
        return [self.files[place] for place in self.file_of.ravel()[cells]]


def assemble(source: Source, found: Survey, options: Options, ledger: Ledger) -> Assembled:
    """Read every row into its place.

    Which file, batch or order a row came in does not matter, but for rows that are there twice.
    """
    panel = _empty(source, found)
    last = np.full(len(found.assets), NO_TIME, np.int64)
    file = None
    for piece in source.pieces(widened(found.selection, options)):
        if piece.part.file != file:
            file = piece.part.file
            last[:] = NO_TIME
        rows = _Rows.of(piece, found, options, ledger)
        _note_unsorted(rows, last, options, ledger)
        kept = _note_duplicates(rows, panel, options, ledger)
        _place(piece, rows, kept, panel, found, options, ledger)
    return panel


@dataclass(slots=True)
class _Rows:
    """The wanted rows of a piece, and where they belong."""

    chosen: Ints
    """Their places in the piece."""
    times: Ints
    columns: Ints
    """The places of their assets."""
    cells: Ints
    """The places of their cells, counted through times by assets."""
    names: NDArray[Any]
    file: str | None

    @classmethod
    def of(cls, piece: Piece, found: Survey, options: Options, ledger: Ledger) -> _Rows:
        keys = decode_keys(piece, found.columns, options)
        _note_keys(keys, options, ledger, piece.part.file)
        wanted = keys.wanted(found.selection)
        if options.policies.keys == "drop_row":
            wanted[[row for kind, row, _ in keys.stamps.wrong if kind == "local_time"]] = False
        chosen = np.flatnonzero(wanted)
        times = keys.stamps.instants[chosen]
        places = {name: place for place, name in enumerate(found.assets)}
        table = np.array([places.get(name, -1) for name in keys.names] or [-1], np.int64)
        columns = table[keys.codes[chosen]]
        stamps, runs = runs_of(times)
        cells = np.searchsorted(found.times, stamps)[runs] * len(found.assets) + columns
        return cls(chosen, times, columns, cells, np.array(found.assets, object), piece.part.file)


def _empty(source: Source, found: Survey) -> Assembled:
    shape = (len(found.times), len(found.assets))
    files = list(dict.fromkeys(part.file for part in source.parts))
    kind = np.uint16 if len(files) < 1 << 16 else np.uint32
    market = found.columns.market
    return Assembled(
        times=found.times,
        assets=found.assets,
        fields=tuple(found.columns.fields),
        values=np.full((*shape, len(found.columns.fields)), np.nan),
        present=np.zeros(shape, np.bool_),
        masks={name: np.zeros(shape, np.bool_) for name in found.columns.masks},
        market={name: np.full(shape[0], np.nan) for name in market},
        disputed={name: np.zeros(shape[0], np.bool_) for name in market},
        unread={name: np.array([], np.int64) for name in found.columns.fields},
        files=files,
        file_of=np.zeros(shape, kind) if len(files) > 1 else None,
        timezone=found.timezone,
    )


def _note_keys(keys: Keys, options: Options, ledger: Ledger, file: str | None) -> None:
    """Rows that have no time or no asset, and times that no clock showed."""
    names = np.array([*keys.names, ""], object)
    policy = options.policies.keys
    told = {row for _, row, _ in keys.stamps.wrong}
    wrong = list(keys.stamps.wrong)
    wrong += [("key", int(row), "no time") for row in
              np.flatnonzero(keys.stamps.instants == NO_TIME) if row not in told]  # fmt: skip
    wrong += [("key", int(row), "no asset") for row in np.flatnonzero(keys.codes < 0)]
    for kind in ("key", "local_time"):
        rows = np.array([row for which, row, _ in wrong if which == kind], np.int64)
        found = np.array([what for which, _, what in wrong if which == kind], object)
        times = keys.stamps.instants[rows]
        ledger.add_rows(kind, policy, times, names[keys.codes[rows]], found, files=file)


def _note_unsorted(rows: _Rows, last: Ints, options: Options, ledger: Ledger) -> None:
    """Rows that go back in time, seen within one file and asset by asset."""
    if not len(rows.times):
        return
    if rows.times[0] >= last.max() and (rows.times[1:] >= rows.times[:-1]).all():
        last[rows.columns] = rows.times
        return
    order = np.argsort(rows.columns, kind="stable")
    columns, times = rows.columns[order], rows.times[order]
    before = np.concatenate([[NO_TIME], times[:-1]])[: len(times)]
    first = np.ones(len(times), np.bool_)
    first[1:] = columns[1:] != columns[:-1]
    before[first] = last[columns[first]]
    final = np.append(first[1:], True)[: len(times)]
    last[columns[final]] = times[final]
    back = np.sort(order[times < before])
    ledger.add_rows(
        "unsorted", options.policies.unsorted, rows.times[back], rows.names[rows.columns[back]],
        "a row that comes after a later one", files=rows.file,
    )  # fmt: skip


def _note_duplicates(rows: _Rows, panel: Assembled, options: Options, ledger: Ledger) -> Ints:
    """Which rows to keep if some are there twice: the first or the last of each."""
    present = panel.present.ravel()
    again = present[rows.cells]
    present[rows.cells] = True
    count = int(np.count_nonzero(present))
    panel.count, before = count, panel.count
    if count - before == len(rows.cells):
        return np.arange(len(rows.cells))
    _, first, inverse = np.unique(rows.cells, return_index=True, return_inverse=True)
    again |= first[inverse] != np.arange(len(rows.cells))
    policy = options.policies.duplicates
    where = np.flatnonzero(again)
    ledger.add_rows(
        "duplicate", policy, rows.times[where], rows.names[rows.columns[where]],
        "a second row at this time", files=rows.file,
    )  # fmt: skip
    # NumPy writes the last of several values to one place, so the last row needs no choosing.
    return np.arange(len(again)) if policy == "last" else np.flatnonzero(~again)


def _place(
    piece: Piece, rows: _Rows, kept: Ints, panel: Assembled, found: Survey, options: Options,
    ledger: Ledger,
) -> None:  # fmt: skip
    """Write the values of some rows to where they belong."""
    cells, taken = rows.cells[kept], rows.chosen[kept]
    for place, (name, column) in enumerate(found.columns.fields.items()):
        if column not in piece.table.schema.names:
            continue
        numbers, wrong = decode_numbers(piece.table.column(column))
        panel.values.reshape(-1, len(panel.fields))[cells, place] = numbers[taken]
        if len(wrong):
            _note_unread(piece, rows, wrong, name, column, panel, options, ledger)
    if panel.file_of is not None:
        panel.file_of.ravel()[cells] = panel.files.index(rows.file)
    for name, column in found.columns.masks.items():
        try:
            flags = decode_flags(piece.table.column(column))
        except TypeError as error:
            refuse("column", f"the column {column!r} cannot be used: {error}", rows.file)
        panel.masks[name].ravel()[cells] = flags[taken]
    for name, column in found.columns.market.items():
        series, _ = decode_numbers(piece.table.column(column))
        _place_series(series[taken], cells // len(panel.assets), name, panel)


def _note_unread(
    piece: Piece, rows: _Rows, wrong: Ints, name: str, column: str, panel: Assembled,
    options: Options, ledger: Ledger,
) -> None:  # fmt: skip
    places = np.flatnonzero(np.isin(rows.chosen, wrong))
    text = piece.table.column(column).take(rows.chosen[places]).to_pylist()
    panel.unread[name] = np.append(panel.unread[name], rows.cells[places])
    ledger.add_rows(
        "number", options.policies.numbers, rows.times[places], rows.names[rows.columns[places]],
        np.array([repr(value) for value in text], object), field=name, files=rows.file,
    )  # fmt: skip


def _place_series(values: Floats, rows: Ints, name: str, panel: Assembled) -> None:
    series, disputed = panel.market[name], panel.disputed[name]
    there = np.isfinite(values)
    values, rows = values[there], rows[there]
    known = np.isfinite(series[rows])
    disputed[rows[known & (series[rows] != values)]] = True
    series[rows] = values
    disputed[rows[series[rows] != values]] = True
