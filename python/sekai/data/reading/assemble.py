"""Assemble rows of a source to an array of times, assets and fields, after a survey of its keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.problems import Problem, ProblemColumns, Problems
from sekai.data.reading.decoding import (
    NO_TIME,
    Timestamps,
    arrow,
    column_kind,
    decode_flags,
    decode_names,
    decode_numbers,
    decode_timestamps,
)
from sekai.data.reading.files import (
    FILE_NAME,
    RowBatch,
    RowSource,
    Selection,
    SourcePart,
    add_dropped,
    index_columns,
)
from sekai.data.reading.options import Columns, Options, find_columns, nanoseconds, reject
from sekai.error import DataError
from sekai.storage.names import unknown_name

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(slots=True)
class RawPanel:
    """Panel as read, before checks."""

    times: Ints
    assets: tuple[str, ...]
    fields: tuple[str, ...]
    values: Floats
    """Times by assets by fields, NaN where missing."""
    present: Bools
    """Mask of rows in the source."""
    masks: dict[str, Bools]
    market: dict[str, Floats]
    disputed: dict[str, Bools]
    """Times at which rows have different values of a market-wide series."""
    unread: dict[str, Ints]
    """Flat indices of cells, by field, whose text is not a number."""
    files: list[str | None]
    file_of: NDArray[Any] | None
    """Index of the file of each row; None if there is only one."""
    timezone: str | None = None
    listings: Bools | None = None
    """Mask of listed assets, if the source states it for all of them."""
    count: int = 0
    """Number of rows."""

    @property
    def names(self) -> NDArray[Any]:
        """Asset names as an array."""
        return np.array(self.assets, object)

    def files_at(self, cells: Ints) -> list[str | None] | str | None:
        """Files of cells."""
        if self.file_of is None:
            return self.files[0] if self.files else None
        return [self.files[index] for index in self.file_of.ravel()[cells]]


def assemble(source: RowSource, surveyed: Survey, options: Options, log: ProblemLog) -> RawPanel:
    """Read all rows.

    The result does not depend on the files, batches or order of the rows, except for duplicates.
    """
    panel = _empty(source, surveyed)
    last = np.full(len(surveyed.assets), NO_TIME, np.int64)
    file = None
    for batch in source.batches(widened(surveyed.selection, options)):
        if batch.part.file != file:
            file = batch.part.file
            last[:] = NO_TIME
        rows = _Rows.of(batch, surveyed, options, log)
        _add_unsorted(rows, last, options, log)
        chosen = _add_duplicates(rows, panel, options, log)
        _write(batch, rows, chosen, panel, surveyed, options, log)
    return panel


@dataclass(slots=True)
class _Rows:
    """Selected rows of a batch, and their cells."""

    chosen: Ints
    """Indices of the rows in the batch."""
    times: Ints
    columns: Ints
    """Indices of their assets."""
    cells: Ints
    """Flat indices of their cells in times by assets."""
    names: NDArray[Any]
    file: str | None

    @classmethod
    def of(cls, batch: RowBatch, surveyed: Survey, options: Options, log: ProblemLog) -> _Rows:
        keys = decode_keys(batch, surveyed.columns, options)
        add_keys(keys, options, log, batch.part.file)
        mask = keys.selected(surveyed.selection)
        if options.policies.keys == "drop_row":
            mask[[row for kind, row, _ in keys.timestamps.wrong if kind == "local_time"]] = False
        chosen = np.flatnonzero(mask)
        times = keys.timestamps.instants[chosen]
        index_of = {name: index for index, name in enumerate(surveyed.assets)}
        table = np.array([index_of.get(name, -1) for name in keys.names] or [-1], np.int64)
        columns = table[keys.codes[chosen]]
        unique, runs = runs_of(times)
        cells = np.searchsorted(surveyed.times, unique)[runs] * len(surveyed.assets) + columns
        names = np.array(surveyed.assets, object)
        return cls(chosen, times, columns, cells, names, batch.part.file)


def _empty(source: RowSource, surveyed: Survey) -> RawPanel:
    shape = (len(surveyed.times), len(surveyed.assets))
    files = list(dict.fromkeys(part.file for part in source.parts))
    kind = np.uint16 if len(files) < 1 << 16 else np.uint32
    fields, market = surveyed.columns.fields, surveyed.columns.market
    return RawPanel(
        times=surveyed.times,
        assets=surveyed.assets,
        fields=tuple(fields),
        values=np.full((*shape, len(fields)), np.nan),
        present=np.zeros(shape, np.bool_),
        masks={name: np.zeros(shape, np.bool_) for name in surveyed.columns.masks},
        market={name: np.full(shape[0], np.nan) for name in market},
        disputed={name: np.zeros(shape[0], np.bool_) for name in market},
        unread={name: np.array([], np.int64) for name in fields},
        files=files,
        file_of=np.zeros(shape, kind) if len(files) > 1 else None,
        timezone=surveyed.timezone,
    )


def add_keys(keys: RowKeys, options: Options, log: ProblemLog, file: str | None) -> None:
    """Report rows without a time or an asset, and invalid local times."""
    names = np.array([*keys.names, ""], object)
    wrong = list(keys.timestamps.wrong)
    reported = {row for _, row, _ in wrong}
    wrong += [
        ("key", int(row), "missing time")
        for row in np.flatnonzero(keys.timestamps.instants == NO_TIME)
        if row not in reported
    ]
    wrong += [("key", int(row), "missing asset") for row in np.flatnonzero(keys.codes < 0)]
    for kind in ("key", "local_time"):
        rows = np.array([row for each, row, _ in wrong if each == kind], np.int64)
        messages = np.array([message for each, _, message in wrong if each == kind], object)
        times, assets = keys.timestamps.instants[rows], names[keys.codes[rows]]
        log.add_rows(kind, options.policies.keys, times, assets, messages, files=file)


def _add_unsorted(rows: _Rows, last: Ints, options: Options, log: ProblemLog) -> None:
    """Report rows of an asset that go back in time within a file."""
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
    log.add_rows(
        "unsorted",
        options.policies.unsorted,
        rows.times[back],
        rows.names[rows.columns[back]],
        "row after a later one",
        files=rows.file,
    )


def _add_duplicates(rows: _Rows, panel: RawPanel, options: Options, log: ProblemLog) -> Ints:
    """Report duplicate timestamps; return the rows to use: the first or the last of each."""
    present = panel.present.ravel()
    duplicate = present[rows.cells]
    present[rows.cells] = True
    count = int(np.count_nonzero(present))
    panel.count, before = count, panel.count
    if count - before == len(rows.cells):
        return np.arange(len(rows.cells))
    _, first, inverse = np.unique(rows.cells, return_index=True, return_inverse=True)
    duplicate |= first[inverse] != np.arange(len(rows.cells))
    policy = options.policies.duplicates
    where = np.flatnonzero(duplicate)
    log.add_rows(
        "duplicate",
        policy,
        rows.times[where],
        rows.names[rows.columns[where]],
        "duplicate timestamp",
        files=rows.file,
    )
    # NumPy stores the last of several values written to a cell, so `last` needs no selection.
    return np.arange(len(duplicate)) if policy == "last" else np.flatnonzero(~duplicate)


def _write(
    batch: RowBatch,
    rows: _Rows,
    chosen: Ints,
    panel: RawPanel,
    surveyed: Survey,
    options: Options,
    log: ProblemLog,
) -> None:
    cells, taken = rows.cells[chosen], rows.chosen[chosen]
    for index, (name, column) in enumerate(surveyed.columns.fields.items()):
        if column not in batch.table.schema.names:
            continue
        numbers, wrong = decode_numbers(batch.table.column(column))
        panel.values.reshape(-1, len(panel.fields))[cells, index] = numbers[taken]
        if len(wrong):
            _add_unread(batch, rows, wrong, name, column, panel, options, log)
    if panel.file_of is not None:
        panel.file_of.ravel()[cells] = panel.files.index(rows.file)
    for name, column in surveyed.columns.masks.items():
        try:
            flags = decode_flags(batch.table.column(column))
        except TypeError as error:
            reject("column", f"column {column!r} cannot be used: {error}", rows.file)
        panel.masks[name].ravel()[cells] = flags[taken]
    for name, column in surveyed.columns.market.items():
        series, _ = decode_numbers(batch.table.column(column))
        _write_series(series[taken], cells // len(panel.assets), name, panel)


def _add_unread(
    batch: RowBatch,
    rows: _Rows,
    wrong: Ints,
    name: str,
    column: str,
    panel: RawPanel,
    options: Options,
    log: ProblemLog,
) -> None:
    indices = np.flatnonzero(np.isin(rows.chosen, wrong))
    text = batch.table.column(column).take(rows.chosen[indices]).to_pylist()
    panel.unread[name] = np.append(panel.unread[name], rows.cells[indices])
    log.add_rows(
        "number",
        options.policies.numbers,
        rows.times[indices],
        rows.names[rows.columns[indices]],
        np.array([repr(value) for value in text], object),
        field=name,
        files=rows.file,
    )


def _write_series(values: Floats, rows: Ints, name: str, panel: RawPanel) -> None:
    series, disputed = panel.market[name], panel.disputed[name]
    valid = np.isfinite(values)
    values, rows = values[valid], rows[valid]
    known = np.isfinite(series[rows])
    disputed[rows[known & (series[rows] != values)]] = True
    series[rows] = values
    disputed[rows[series[rows] != values]] = True


@dataclass(slots=True)
class Survey:
    """Columns, times and assets of a source."""

    columns: Columns
    selection: Selection
    times: Ints
    """Selected timestamps, ascending."""
    assets: tuple[str, ...]
    """Selected assets: sorted, or in the order passed by the user."""
    timezone: str | None


@dataclass(slots=True)
class RowKeys:
    """Times and assets of rows."""

    timestamps: Timestamps
    codes: Ints
    """Index in `names`, -1 if missing."""
    names: list[str]

    def selected(self, selection: Selection) -> NDArray[np.bool_]:
        """Mask of selected rows with a time and an asset."""
        mask: NDArray[np.bool_] = (self.timestamps.instants != NO_TIME) & (self.codes >= 0)
        if selection.start is not None:
            mask &= self.timestamps.instants >= selection.start
        if selection.stop is not None:
            mask &= self.timestamps.instants < selection.stop
        if selection.assets is not None:
            codes = [code for code, name in enumerate(self.names) if name in selection.assets]
            mask &= np.isin(self.codes, codes)
        return mask


@dataclass(slots=True)
class _Tally:
    times: Ints = field(default_factory=lambda: np.array([], np.int64))
    pending: list[Ints] = field(default_factory=list)
    assets: set[str] = field(default_factory=set)
    zones: set[str] = field(default_factory=set)
    readable: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    example: dict[str, str] = field(default_factory=dict)

    def add_times(self, times: Ints) -> None:
        # Merged now and then, which bounds memory.
        self.pending.append(np.unique(runs_of(times)[0]))
        if sum(map(len, self.pending)) > max(1 << 20, len(self.times)):
            self.merge()

    def merge(self) -> None:
        self.times = np.unique(np.concatenate([self.times, *self.pending]))
        self.pending = []


def survey(source: RowSource, options: Options, log: ProblemLog) -> Survey:
    """Scan the times and assets of all rows, and text that may be numbers."""
    columns = _shared_columns(source, options, log)
    text = [name for name in columns.fields.values() if _kinds(source, name) & {"text"}]
    selection = _selection(columns, options)
    near = widened(replace(selection, columns=[*columns.keys, *text]), options)
    tally = _Tally()
    for batch in source.batches(near):
        _scan(batch, columns, options, selection, tally, text)
    tally.merge()
    for name in [name for name in text if tally.unreadable.get(name) and not tally.readable[name]]:
        message = f"column must be numeric, got text such as {tally.example[name]!r}"
        columns = _without(columns, name, message, options, log)
    timezone = _timezone(tally.zones, options, log)
    names = sorted(tally.assets | set(source.assets))
    assets = (
        names if options.assets is None else _known_assets(source, columns, options, tally, log)
    )
    final = replace(selection, columns=columns.all)
    return Survey(columns, final, tally.times, tuple(assets), timezone)


def _known_assets(
    source: RowSource, columns: Columns, options: Options, tally: _Tally, log: ProblemLog
) -> list[str]:
    """Selected assets without unknown ones, each of which is a problem."""
    chosen = list(options.assets or ())
    if set(chosen) <= tally.assets | set(source.assets):
        return chosen
    known = sorted(every_key(source, columns, options).assets | set(source.assets))
    unknown = [name for name in chosen if name not in known]
    policy = options.policies.empty
    for name in unknown:
        log.add(Problem("empty", unknown_name("asset", name, known), name, policy=policy))
    if unknown and policy == "error":
        log.raise_errors()
    return [name for name in chosen if name in known]


def every_key(source: RowSource, columns: Columns, options: Options) -> _Tally:
    """Times and assets of all rows, selected or not, for error messages."""
    everything = Selection(columns.keys, columns.time, columns.asset or FILE_NAME)
    tally = _Tally()
    for batch in source.batches(everything):
        _scan(batch, columns, options, everything, tally, [])
    tally.merge()
    return tally


def decode_keys(batch: RowBatch, columns: Columns, options: Options) -> RowKeys:
    """Decode the times and assets of a batch."""
    rows = batch.table.num_rows
    name = columns.time
    try:
        timestamps = decode_timestamps(_column(batch, columns.time), options)
        name = columns.asset or FILE_NAME
        if name in batch.part.constants and name not in batch.table.schema.names:
            return RowKeys(timestamps, np.zeros(rows, np.int64), [batch.part.constants[name]])
        codes, names = decode_names(_column(batch, name))
    except TypeError as error:
        reject("column", f"column {name!r} cannot be used: {error}", batch.part.file)
    return RowKeys(timestamps, codes, names)


def runs_of(times: Ints) -> tuple[Ints, NDArray[np.intp]]:
    """Timestamps without consecutive repetitions, and the index of each row in them.

    Most tables have all assets of a time in consecutive rows, so that these are far fewer.
    """
    changes = np.ones(len(times), np.bool_)
    changes[1:] = times[1:] != times[:-1]
    return times[changes], np.cumsum(changes) - 1


def _column(batch: RowBatch, name: str) -> Any:
    pa = arrow()
    if name in batch.table.schema.names:
        column = batch.table.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if name in batch.part.constants:
        return pa.array([batch.part.constants[name]] * batch.table.num_rows, pa.string())
    raise TypeError(f"it is missing; columns are {', '.join(batch.table.schema.names)}")


def _scan(
    batch: RowBatch,
    columns: Columns,
    options: Options,
    selection: Selection,
    tally: _Tally,
    text: list[str],
) -> None:
    keys = decode_keys(batch, columns, options)
    mask = keys.selected(selection)
    tally.zones |= keys.timestamps.zones
    tally.add_times(keys.timestamps.instants[mask])
    tally.assets |= {keys.names[code] for code in np.flatnonzero(np.bincount(keys.codes[mask]))}
    for name in text:
        if name in batch.table.schema.names:
            numbers, wrong = decode_numbers(batch.table.column(name))
            valid = int(np.isfinite(numbers).sum())
            tally.readable[name] = tally.readable.get(name, 0) + valid
            tally.unreadable[name] = tally.unreadable.get(name, 0) + len(wrong)
            if len(wrong) and name not in tally.example:
                tally.example[name] = batch.table.column(name)[int(wrong[0])].as_py()


def _shared_columns(source: RowSource, options: Options, log: ProblemLog) -> Columns:
    """Numeric columns that every part has."""
    names = list(dict.fromkeys(name for part in source.parts for name in part.schema.names))
    offered = {name for part in source.parts for name in part.constants} - {FILE_NAME}
    columns = find_columns(names, options, sorted(offered), index_columns(source.parts))
    add_dropped(columns, log, source.parts[0].file)
    if columns.asset is None:
        _check_file_names(source, names)
    for name in list(columns.fields.values()):
        for part in source.parts:
            problem = _unusable(part, name)
            if problem:
                columns = _without(columns, name, problem, options, log, part.file)
                break
    if not columns.fields:
        log.raise_errors()
        reject("column", f"no field is in every file; columns are {', '.join(names)}")
    return columns


def _unusable(part: SourcePart, name: str) -> str | None:
    if name not in part.schema.names:
        return f"missing column {name!r}, which other files have"
    kind = part.schema.field(name).type
    return f"column must be numeric, got {kind}" if column_kind(kind) == "neither" else None


def _without(
    columns: Columns,
    name: str,
    message: str,
    options: Options,
    log: ProblemLog,
    file: str | None = None,
) -> Columns:
    policy = options.policies.columns
    log.add(Problem("column", message, field=name, file=file, policy=policy))
    rest = {field: column for field, column in columns.fields.items() if column != name}
    return replace(columns, fields=rest)


def _check_file_names(source: RowSource, names: list[str]) -> None:
    files = [part.constants.get(FILE_NAME) for part in source.parts]
    if None in files:
        reject(
            "column",
            f"missing asset column; expected one such as symbol, asset= or field=, columns are "
            f"{', '.join(names)}",
        )
    duplicates = sorted({name for name in files if name is not None and files.count(name) > 1})
    if duplicates:
        reject("column", f"missing asset column, and file names are not unique: {duplicates}")


def _kinds(source: RowSource, name: str) -> set[str]:
    schemas = (part.schema for part in source.parts)
    return {column_kind(schema.field(name).type) for schema in schemas if name in schema.names}


def _selection(columns: Columns, options: Options) -> Selection:
    ends = (options.start, options.stop)
    start, stop = (None if end is None else nanoseconds(end, options.timezone) for end in ends)
    if start is not None and stop is not None and start >= stop:
        raise ValueError(f"start must be before stop, got {options.start} and {options.stop}")
    assets = None if options.assets is None else tuple(options.assets)
    return Selection(columns.all, columns.time, columns.asset or FILE_NAME, assets, start, stop)


def widened(selection: Selection, options: Options) -> Selection:
    """Selection with a margin for time zones and `known_after`."""
    margin = DAY + round(options.known_after.total_seconds() * 10**9)
    start, stop = selection.start, selection.stop
    return replace(
        selection,
        start=None if start is None else max(start - margin, NO_TIME + 1),
        stop=None if stop is None else min(stop + DAY, np.iinfo(np.int64).max),
    )


def _timezone(zones: set[str], options: Options, log: ProblemLog) -> str | None:
    """Time zone of days, as far as the source states it."""
    if options.timezone is not None:
        return None if options.timezone == "UTC" else options.timezone
    names = sorted(zones)
    if not names or names == ["UTC"]:
        return None
    if len(names) == 1 and names[0][0] not in "+-" and names != ["naive"]:
        return names[0]
    several = f"timestamps of {', '.join(names)}"
    message = "times of day without a time zone" if names == ["naive"] else several
    log.add(Problem("time_zone", message))
    return None


@dataclass(slots=True)
class ProblemLog:
    """Problems in the order of the checks."""

    parts: list[Problem | ProblemColumns] = field(default_factory=list)
    raised: bool = False
    """True if these problems were raised as an error."""

    def add(self, part: Problem | ProblemColumns) -> None:
        """Add one problem, or several of a kind."""
        self.parts.append(part)

    def add_rows(
        self,
        kind: str,
        policy: str,
        times: NDArray[np.int64],
        assets: NDArray[Any],
        message: str | NDArray[Any],
        *,
        field: str | None = None,
        files: Any = None,
    ) -> None:
        """Add one problem per row."""
        if len(times):
            timestamps = times.astype("datetime64[ns]")
            ones = np.ones(len(times), np.int64)
            self.add(
                ProblemColumns(
                    kind, policy, field, assets, timestamps, timestamps, ones, message, files
                )
            )

    @property
    def everything(self) -> Problems:
        """All problems."""
        return Problems(self.parts)

    @property
    def repairs(self) -> Problems:
        """Problems that were handled by a policy."""
        return Problems(part for part in self.parts if part.policy != "error")

    def raise_errors(self) -> None:
        """Raise a `DataError` with the problems that no policy handles."""
        errors = Problems(part for part in self.parts if part.policy == "error")
        if len(errors):
            self.raised = True
            raise DataError(str(errors), errors)
