"""Join other tables to a panel: market-wide series and sectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.problems import Problem
from sekai.data.reading.assemble import ProblemLog, RawPanel, RowKeys, add_keys
from sekai.data.reading.decoding import NO_TIME, decode_names, decode_numbers, decode_timestamps
from sekai.data.reading.files import (
    CSV_SUFFIXES,
    SourcePart,
    add_dropped,
    index_columns,
    read_csv,
    readable,
)
from sekai.data.reading.frames import to_arrow
from sekai.data.reading.options import ASSET_NAMES, Options, find_columns, is_path, reject
from sekai.error import DataError
from sekai.storage.optional import optional_import

SHOWN = 5
"""Names in an error message."""

SEVERAL_VALUES = "different values at one time"
SUPERSEDED = "value after the last row, or replaced by a later one before the next row"
WITHOUT_ROW = (
    "value at a time without a row; Policies(market='forward_fill') shows it from the next row on"
)


def add_market(panel: RawPanel, options: Options, log: ProblemLog) -> None:
    """Join market-wide series by time; report missing values and values that no row shows."""
    if isinstance(options.market, list | tuple):
        conflict = "values differ between assets"
        for name, series in panel.market.items():
            series[panel.disputed[name]] = np.nan
    else:
        conflict = SEVERAL_VALUES
        _read_market(panel, options, log)
    policy = options.policies.market
    for name, series in panel.market.items():
        disputed = panel.disputed[name]
        _note(panel, log, name, disputed, policy, conflict)
        holes = ~np.isfinite(series)
        _note(panel, log, name, holes & ~disputed, policy, "missing value")
        if policy == "forward_fill":
            rows = np.arange(len(series))
            last = np.maximum.accumulate(np.where(holes, -1, rows))
            filled = holes & (last >= 0)
            series[filled] = series[last[filled]]


def sectors_of(source: Any, assets: Sequence[str]) -> dict[str, str]:
    """Read the sector of each asset from a mapping, or from a frame or file that may list more."""
    if source is None:
        return {}
    if isinstance(source, Mapping):
        # Names that are no assets are refused by `MarketData`.
        return {str(asset): str(sector) for asset, sector in source.items()}
    listed = _listed_sectors(source)
    known = {asset: listed[asset] for asset in assets if asset in listed}
    if listed and not known:
        some = ", ".join(sorted(listed)[:SHOWN])
        own = ", ".join(assets[:SHOWN])
        raise DataError(f"sectors= names none of the assets: expected some of {own}, got {some}")
    return known


def _listed_sectors(source: Any) -> dict[str, str]:
    table = _table(source)
    names = table.schema.names
    assets = [name for name in names if name.lower() in ASSET_NAMES]
    sectors = [name for name in names if "sector" in name.lower()]
    if len(assets) != 1 or len(sectors) != 1:
        reject(
            "column",
            f"sectors= must have a column such as symbol and one such as sector, got "
            f"{', '.join(names)}",
        )
    try:
        pairs = [_texts(table.column(column)) for column in (assets[0], sectors[0])]
    except TypeError as error:
        reject("column", f"sectors= cannot be used: {error}")
    return {asset: sector for asset, sector in zip(*pairs, strict=True) if asset and sector}


def _texts(column: Any) -> list[str | None]:
    codes, names = decode_names(column)
    return [None if code < 0 else names[code] for code in codes]


def _read_market(panel: RawPanel, options: Options, log: ProblemLog) -> None:
    """Read the series of another frame or file; see `_Stamped`."""
    table = _table(options.market, options)
    plain = replace(
        options, time=None, asset=None, fields=None, rename={}, field=None, market=(), assets=None
    )
    part = SourcePart(table.schema, str(options.market) if is_path(options.market) else None)
    columns = find_columns(table.schema.names, plain, index=index_columns([part]))
    add_dropped(columns, log, part.file)
    try:
        timestamps = decode_timestamps(table.column(columns.time).combine_chunks(), options)
    except TypeError as error:
        reject("column", f"column {columns.time!r} of market= cannot be used: {error}")
    rows = np.zeros(len(timestamps.instants), np.int64)
    add_keys(RowKeys(timestamps, rows, ["market="]), options, log, None)
    for name, column in columns.fields.items():
        values, wrong = decode_numbers(table.column(column))
        if len(wrong):
            text = table.column(column)[int(wrong[0])].as_py()
            message = f"column must be numeric, got text such as {text!r} ({len(wrong)} rows)"
            log.add(Problem("market", message, None, name, policy=options.policies.market))
        stamped = _Stamped.of(timestamps.instants, values)
        panel.market[name], panel.disputed[name] = stamped.join(panel, name, options, log)


@dataclass(slots=True)
class _Stamped:
    """Values of a series by timestamp, ascending, before they are joined to rows."""

    times: NDArray[np.int64]
    values: NDArray[np.float64]
    disputed: NDArray[np.bool_]
    """Timestamps with different values, none of which is used."""

    @classmethod
    def of(cls, times: NDArray[np.int64], values: NDArray[np.float64]) -> _Stamped:
        usable = np.flatnonzero((times != NO_TIME) & np.isfinite(values))
        order = usable[np.argsort(times[usable], kind="stable")]
        unique, first, index = np.unique(times[order], return_index=True, return_inverse=True)
        disputed = np.zeros(len(unique), np.bool_)
        disputed[index[values[order] != values[order][first][index]]] = True
        return cls(unique, values[order][first], disputed)

    def join(
        self, panel: RawPanel, name: str, options: Options, log: ProblemLog
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Series by row, and rows with different values at their time.

        A value belongs to the row of its timestamp. `forward_fill` shows a value between two rows
        in the later one, when it is known; values that no row shows are reported.
        """
        rows = np.searchsorted(panel.times, self.times)
        inside = rows < len(panel.times)
        at_row = inside.copy()
        at_row[inside] = panel.times[rows[inside]] == self.times[inside]
        fills = options.policies.market == "forward_fill"
        used = np.flatnonzero((inside if fills else at_row) & ~self.disputed)
        last_of_row = np.append(rows[used][1:] != rows[used][:-1], True)[: len(used)]
        series, disputed = np.full(len(panel.times), np.nan), np.zeros(len(panel.times), np.bool_)
        series[rows[used[last_of_row]]] = self.values[used[last_of_row]]
        disputed[rows[at_row & self.disputed]] = True
        lost = ~self.disputed
        lost[used[last_of_row]] = False
        message = SUPERSEDED if fills else WITHOUT_ROW
        _add_runs(log, name, self.times, lost, "drop", message)
        conflict = self.disputed & ~at_row
        _add_runs(log, name, self.times, conflict, options.policies.market, SEVERAL_VALUES)
        return series, disputed


def _table(source: Any, options: Options | None = None) -> Any:
    """Small frame or file as an Arrow table."""
    if not is_path(source):
        return to_arrow(source)
    file = Path(source)
    if not file.is_file():
        raise FileNotFoundError(f"no file {str(source)!r}")
    if file.name.lower().endswith(CSV_SUFFIXES):
        return read_csv(file)
    with readable(file):
        return optional_import("pyarrow.parquet", "data", "reading a Parquet file").read_table(file)


def _note(
    panel: RawPanel,
    log: ProblemLog,
    name: str,
    where: NDArray[np.bool_],
    policy: str,
    message: str,
) -> None:
    _add_runs(log, name, panel.times, where & panel.present.any(axis=1), policy, message)


def _add_runs(
    log: ProblemLog,
    name: str,
    times: NDArray[np.int64],
    where: NDArray[np.bool_],
    policy: str,
    message: str,
) -> None:
    """Report timestamps of a series, one problem per run of adjacent ones."""
    rows = np.flatnonzero(where)
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
        first, last = times[[run[0], run[-1]]].astype("datetime64[ns]")
        log.add(Problem("market", message, None, name, first, last, len(run), policy=policy))
