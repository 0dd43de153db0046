"""What is known beside the panel: series of the whole market, and sectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.problems import Problem
from sekai.data.reading.assemble import Assembled
from sekai.data.reading.columns import ASSET_NAMES, find_columns, refuse
from sekai.data.reading.csv_files import read_csv
from sekai.data.reading.extras import needed
from sekai.data.reading.files import CSV_SUFFIXES, readable
from sekai.data.reading.frames import to_arrow
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.numbers import decode_names, decode_numbers
from sekai.data.reading.options import Options, is_path
from sekai.data.reading.stamps import NO_TIME, decode_stamps

__all__ = ["add_market", "sectors_of"]


def add_market(panel: Assembled, options: Options, ledger: Ledger) -> None:
    """Give every time the values of the market's series, and note where there are none."""
    if not isinstance(options.market, list | tuple):
        _read_market(panel, options)
    policy = options.policies.market
    for name, series in panel.market.items():
        disputed = panel.disputed[name]
        _note(panel, ledger, name, disputed, policy, "values that differ from asset to asset")
        series[disputed] = np.nan
        holes = ~np.isfinite(series)
        _note(panel, ledger, name, holes & ~disputed, policy, "no value")
        if policy == "forward_fill":
            rows = np.arange(len(series))
            last = np.maximum.accumulate(np.where(holes, -1, rows))
            filled = holes & (last >= 0)
            series[filled] = series[last[filled]]


def sectors_of(given: Any) -> dict[str, str]:
    """The sector of each asset, from a mapping, a frame or a file."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(asset): str(sector) for asset, sector in given.items()}
    table = _table(given)
    names = table.schema.names
    assets = [name for name in names if name.lower() in ASSET_NAMES]
    sectors = [name for name in names if "sector" in name.lower()]
    if len(assets) != 1 or len(sectors) != 1:
        refuse("column", f"a column such as symbol and one such as sector were wanted for "
               f"sectors=, found {', '.join(names)}")  # fmt: skip
    try:
        pairs = [_texts(table.column(column)) for column in (assets[0], sectors[0])]
    except TypeError as error:
        refuse("column", f"sectors= cannot be used: {error}")
    return {asset: sector for asset, sector in zip(*pairs, strict=True) if asset and sector}


def _texts(column: Any) -> list[str | None]:
    codes, names = decode_names(column)
    return [None if code < 0 else names[code] for code in codes]


def _read_market(panel: Assembled, options: Options) -> None:
    table = _table(options.market, options)
    plain = replace(
        options, time=None, asset=None, fields=None, rename={}, field=None, market=(), assets=None
    )
    columns = find_columns(table.schema.names, plain)
    try:
        stamps = decode_stamps(table.column(columns.time).combine_chunks(), options)
    except TypeError as error:
        refuse("column", f"the column {columns.time!r} of market= cannot be used: {error}")
    rows = np.searchsorted(panel.times, stamps.instants)
    rows[rows == len(panel.times)] = 0
    hit = (panel.times[rows] == stamps.instants) & (stamps.instants != NO_TIME)
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
    """A small frame or file as an Arrow table."""
    if not is_path(source):
        return to_arrow(source)
    file = Path(source)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    if file.name.lower().endswith(CSV_SUFFIXES):
        return read_csv(file)
    with readable(file):
        return needed("pyarrow.parquet", "reading a Parquet file").read_table(file)


def _note(
    panel: Assembled, ledger: Ledger, name: str, where: NDArray[np.bool_], policy: str, found: str
) -> None:
    rows = np.flatnonzero(where & panel.present.any(axis=1))
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
        first, last = panel.times[[run[0], run[-1]]].astype("datetime64[ns]")
        ledger.add(Problem("market", found, None, name, first, last, len(run), policy=policy))
