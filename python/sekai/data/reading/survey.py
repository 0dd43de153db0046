"""The first look at a source: which columns, times and assets there are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.problems import Problem
from sekai.data.reading.columns import Columns, find_columns, refuse
from sekai.data.reading.extras import arrow
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.numbers import decode_names, decode_numbers, holds
from sekai.data.reading.options import Options, nanoseconds
from sekai.data.reading.source import FILE_NAME, Part, Piece, Selection, Source
from sekai.data.reading.stamps import NO_TIME, Stamps, decode_stamps

__all__ = ["Keys", "Survey", "decode_keys", "runs_of", "survey", "widened"]

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Survey:
    """What a source is made of."""

    columns: Columns
    selection: Selection
    times: Ints
    """All stamps that are wanted, ascending."""
    assets: tuple[str, ...]
    """All assets that are wanted: sorted, or in the order in which the user named them."""
    timezone: str | None


@dataclass(slots=True)
class Keys:
    """Which row is which."""

    stamps: Stamps
    codes: Ints
    """The place in `names`, -1 for none."""
    names: list[str]

    def wanted(self, selection: Selection) -> NDArray[np.bool_]:
        """The rows with a time and an asset that are asked for."""
        chosen: NDArray[np.bool_] = (self.stamps.instants != NO_TIME) & (self.codes >= 0)
        if selection.start is not None:
            chosen &= self.stamps.instants >= selection.start
        if selection.stop is not None:
            chosen &= self.stamps.instants < selection.stop
        if selection.assets is not None:
            places = [place for place, name in enumerate(self.names) if name in selection.assets]
            chosen &= np.isin(self.codes, places)
        return chosen


@dataclass(slots=True)
class Tally:
    """What has been met so far."""

    times: Ints = field(default_factory=lambda: np.array([], np.int64))
    pending: list[Ints] = field(default_factory=list)
    assets: set[str] = field(default_factory=set)
    zones: set[str] = field(default_factory=set)
    readable: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    example: dict[str, str] = field(default_factory=dict)

    def meet_times(self, times: Ints) -> None:
        """Remember stamps; those met before are merged only now and then."""
        self.pending.append(np.unique(runs_of(times)[0]))
        if sum(map(len, self.pending)) > max(1 << 20, len(self.times)):
            self.merge()

    def merge(self) -> None:
        """Bring all stamps in order."""
        self.times = np.unique(np.concatenate([self.times, *self.pending]))
        self.pending = []


def survey(source: Source, options: Options, ledger: Ledger) -> Survey:
    """Look at every row's time and asset, and at text that may be numbers."""
    columns = _shared_columns(source, options, ledger)
    text = [name for name in columns.fields.values() if _kinds(source, name) & {"text"}]
    selection = _selection(columns, options)
    near = widened(replace(selection, columns=[*columns.keys, *text]), options)
    tally = Tally()
    for piece in source.pieces(near):
        _look(piece, columns, options, selection, tally, text)
    tally.merge()
    for name in [name for name in text if tally.unreadable.get(name) and not tally.readable[name]]:
        found = f"a column of text such as {tally.example[name]!r}, numbers wanted"
        columns = _without(columns, name, found, options, ledger)
    timezone = _timezone(tally.zones, options, ledger)
    found_assets = tally.assets | set(source.assets)
    assets = sorted(found_assets) if options.assets is None else list(options.assets)
    final = replace(selection, columns=columns.all)
    return Survey(columns, final, tally.times, tuple(assets), timezone)


def decode_keys(piece: Piece, columns: Columns, options: Options) -> Keys:
    """The times and assets of some rows."""
    rows = piece.table.num_rows
    name = columns.time
    try:
        stamps = decode_stamps(_column(piece, columns.time), options)
        name = columns.asset or FILE_NAME
        if name in piece.part.constants and name not in piece.table.schema.names:
            return Keys(stamps, np.zeros(rows, np.int64), [piece.part.constants[name]])
        codes, names = decode_names(_column(piece, name))
    except TypeError as error:
        refuse("column", f"the column {name!r} cannot be used: {error}", piece.part.file)
    return Keys(stamps, codes, names)


def runs_of(times: Ints) -> tuple[Ints, NDArray[np.intp]]:
    """The stamps without those that repeat the one before, and where in these each stamp is.

    Most tables have all assets of a time in a row, so that there are far fewer.
    """
    changes = np.ones(len(times), np.bool_)
    changes[1:] = times[1:] != times[:-1]
    return times[changes], np.cumsum(changes) - 1


def _column(piece: Piece, name: str) -> Any:
    pa = arrow()
    if name in piece.table.schema.names:
        column = piece.table.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if name in piece.part.constants:
        return pa.array([piece.part.constants[name]] * piece.table.num_rows, pa.string())
    raise TypeError(f"it is not there, found {', '.join(piece.table.schema.names)}")


def _look(
    piece: Piece, columns: Columns, options: Options, selection: Selection, tally: Tally,
    text: list[str],
) -> None:  # fmt: skip
    keys = decode_keys(piece, columns, options)
    wanted = keys.wanted(selection)
    tally.zones |= keys.stamps.zones
    tally.meet_times(keys.stamps.instants[wanted])
    tally.assets |= {keys.names[place] for place in np.flatnonzero(np.bincount(keys.codes[wanted]))}
    for name in text:
        if name in piece.table.schema.names:
            numbers, wrong = decode_numbers(piece.table.column(name))
            there = int(np.isfinite(numbers).sum())
            tally.readable[name] = tally.readable.get(name, 0) + there
            tally.unreadable[name] = tally.unreadable.get(name, 0) + len(wrong)
            if len(wrong) and name not in tally.example:
                tally.example[name] = piece.table.column(name)[int(wrong[0])].as_py()


def _shared_columns(source: Source, options: Options, ledger: Ledger) -> Columns:
    """The columns that every part has and that hold numbers."""
    names = list(dict.fromkeys(name for part in source.parts for name in part.schema.names))
    offered = {name for part in source.parts for name in part.constants} - {FILE_NAME}
    columns = find_columns(names, options, sorted(offered))
    if columns.asset is None:
        _check_file_names(source, names)
    for name in list(columns.fields.values()):
        for part in source.parts:
            found = _unusable(part, name)
            if found:
                columns = _without(columns, name, found, options, ledger, part.file)
                break
    if not columns.fields:
        ledger.raise_errors()
        refuse("column", f"no field that every file has, found {', '.join(names)}")
    return columns


def _unusable(part: Part, name: str) -> str | None:
    if name not in part.schema.names:
        return f"no column {name!r}, which other files have"
    kind = part.schema.field(name).type
    return f"a column of {kind}, numbers wanted" if holds(kind) == "neither" else None


def _without(
    columns: Columns, name: str, found: str, options: Options, ledger: Ledger,
    file: str | None = None,
) -> Columns:  # fmt: skip
    policy = options.policies.columns
    ledger.add(Problem("column", found, field=name, file=file, policy=policy))
    rest = {field: column for field, column in columns.fields.items() if column != name}
    return replace(columns, fields=rest)


def _check_file_names(source: Source, names: list[str]) -> None:
    files = [part.constants.get(FILE_NAME) for part in source.parts]
    if None in files:
        refuse("column", f"no asset: a column such as symbol, asset= or field= wanted, found "
               f"{', '.join(names)}")  # fmt: skip
    twice = sorted({name for name in files if name is not None and files.count(name) > 1})
    if twice:
        refuse("column", f"no asset: neither a column nor file names that differ, found {twice}")


def _kinds(source: Source, name: str) -> set[str]:
    schemas = (part.schema for part in source.parts)
    return {holds(schema.field(name).type) for schema in schemas if name in schema.names}


def _selection(columns: Columns, options: Options) -> Selection:
    ends = (options.start, options.stop)
    start, stop = (None if end is None else nanoseconds(end, options.timezone) for end in ends)
    assets = None if options.assets is None else tuple(options.assets)
    return Selection(columns.all, columns.time, columns.asset or FILE_NAME, assets, start, stop)


def widened(selection: Selection, options: Options) -> Selection:
    """With room for zones and for rows that are known after their stamps."""
    room = DAY + round(options.known_after.total_seconds() * 10**9)
    start, stop = selection.start, selection.stop
    return replace(
        selection,
        start=None if start is None else max(start - room, NO_TIME + 1),
        stop=None if stop is None else min(stop + DAY, np.iinfo(np.int64).max),
    )


def _timezone(zones: set[str], options: Options, ledger: Ledger) -> str | None:
    """Where days begin and end, as far as the source tells."""
    if options.timezone is not None:
        return None if options.timezone == "UTC" else options.timezone
    found = sorted(zones)
    named = len(found) == 1 and found[0][0] not in "+-" and found != ["naive"]
    if found == ["UTC"] or not found:
        return None
    if named:
        return found[0]
    what = "times of day without a zone" if found == ["naive"] else f"stamps of {', '.join(found)}"
    ledger.add(Problem("time_zone", what))
    return None
