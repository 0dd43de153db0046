"""Join other tables to a panel: market-wide series and sectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.problems import Problem
from sekai.data.reading.assemble import ProblemLog, RawPanel
from sekai.data.reading.decoding import NO_TIME, decode_names, decode_numbers, decode_timestamps
from sekai.data.reading.files import CSV_SUFFIXES, read_csv, readable
from sekai.data.reading.frames import to_arrow
from sekai.data.reading.options import ASSET_NAMES, Options, find_columns, is_path, reject
from sekai.storage.optional import optional_import

__all__ = ["add_market", "sectors_of"]


def add_market(panel: RawPanel, options: Options, log: ProblemLog) -> None:
    """Join market-wide series by time, and report missing values."""
    if not isinstance(options.market, list | tuple):
        _read_market(panel, options)
    policy = options.policies.market
    for name, series in panel.market.items():
        disputed = panel.disputed[name]
        _note(panel, log, name, disputed, policy, "values differ between assets")
        series[disputed] = np.nan
        holes = ~np.isfinite(series)
        _note(panel, log, name, holes & ~disputed, policy, "missing value")
        if policy == "forward_fill":
            rows = np.arange(len(series))
            last = np.maximum.accumulate(np.where(holes, -1, rows))
            filled = holes & (last >= 0)
            series[filled] = series[last[filled]]


def sectors_of(source: Any) -> dict[str, str]:
    """Read the sector of each asset from a mapping, a frame or a file."""
    if source is None:
        return {}
    if isinstance(source, Mapping):
        return {str(asset): str(sector) for asset, sector in source.items()}
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


def _read_market(panel: RawPanel, options: Options) -> None:
    table = _table(options.market, options)
    plain = replace(
        options, time=None, asset=None, fields=None, rename={}, field=None, market=(), assets=None
    )
    columns = find_columns(table.schema.names, plain)
    try:
        timestamps = decode_timestamps(table.column(columns.time).combine_chunks(), options)
    except TypeError as error:
        reject("column", f"column {columns.time!r} of market= cannot be used: {error}")
    rows = np.searchsorted(panel.times, timestamps.instants)
    rows[rows == len(panel.times)] = 0
    hit = (panel.times[rows] == timestamps.instants) & (timestamps.instants != NO_TIME)
    for name, column in columns.fields.items():
        values, _ = decode_numbers(table.column(column))
        panel.market[name], panel.disputed[name] = _matched(
            values[hit], rows[hit], len(panel.times)
        )


def _matched(
    values: NDArray[np.float64], rows: NDArray[Any], length: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    series = np.full(length, np.nan)
    series[rows] = values
    disputed = np.zeros(length, np.bool_)
    disputed[rows[np.isfinite(values) & (series[rows] != values)]] = True
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
    rows = np.flatnonzero(where & panel.present.any(axis=1))
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
        first, last = panel.times[[run[0], run[-1]]].astype("datetime64[ns]")
        log.add(Problem("market", message, None, name, first, last, len(run), policy=policy))
