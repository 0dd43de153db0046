"""Read a source to a panel: survey, assemble, check, join, build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import Calendar, Frequency
from sekai.data.delisting import inferred_delistings, lifetimes
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.problems import Policies, Problem, Problems
from sekai.data.reading.assemble import ProblemLog, RawPanel, assemble, every_key, survey
from sekai.data.reading.checks import Fill, RowActions, add_cells, check
from sekai.data.reading.files import (
    CSV_SUFFIXES,
    MARKET_PREFIX,
    CsvSource,
    PanelMetadata,
    ParquetSource,
    RowSource,
)
from sekai.data.reading.frames import FrameSource, WideSource
from sekai.data.reading.joins import add_market, sectors_of
from sekai.data.reading.options import VOLUME_FIELDS, Columns, Options, is_path, nanoseconds, reject
from sekai.error import DataError
from sekai.storage.names import unknown_name
from sekai.storage.optional import optional_import

Bools = NDArray[np.bool_]
PathLike = str | os.PathLike[str]

PANEL_ARRAYS = ("values", "listed", "quoted", "tradable")
STORED_OPTIONS = (
    *("time", "asset", "rename", "field", "market", "listing", "timezone"),
    *("time_unit", "time_format", "known_after"),
)
"""Options that a panel written by sekai defines itself."""


def read_parquet_files(path: PathLike, arguments: Mapping[str, Any]) -> MarketData:
    """Read Parquet files, see `MarketData.from_parquet`."""
    optional_import("pyarrow", "data", "MarketData.from_parquet")
    options = Options.of(arguments)
    return _read(ParquetSource(path, options), options, ProblemLog())


def read_csv_files(path: PathLike, arguments: Mapping[str, Any]) -> MarketData:
    """Read CSV files, see `MarketData.from_csv`."""
    optional_import("pyarrow", "data", "MarketData.from_csv")
    options = Options.of(arguments)
    return _read(CsvSource(path, options), options, ProblemLog())


def read_frame(frame: Any, arguments: Mapping[str, Any]) -> MarketData:
    """Read a frame, see `MarketData.from_frame`."""
    return _read(FrameSource(frame), Options.of(arguments), ProblemLog())


def all_problems(source: Any, arguments: Mapping[str, Any]) -> Problems:
    """Report all problems of a source, see `sekai.data.inspect`."""
    optional_import("pyarrow", "data", "sekai.data.inspect")
    log = ProblemLog()
    options = Options.of(arguments)
    try:
        _read(_source(source, options), options, log)
    except DataError as error:
        # Errors raised by `reject` are not in the log.
        return Problems([*log.parts, *([] if log.raised else error.problems)])
    return log.everything


def _source(source: Any, options: Options) -> RowSource:
    if not is_path(source):
        return FrameSource(source)
    path = Path(source)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    is_csv = any(file.name.lower().endswith(CSV_SUFFIXES) for file in files)
    return CsvSource(path, options) if is_csv else ParquetSource(path, options)


def _read(source: RowSource, options: Options, log: ProblemLog) -> MarketData:
    stored = PanelMetadata.from_schema(source.parts[0].schema, source.parts[0].file)
    if stored is not None:
        return _read_stored(source, stored, options, log)
    if options.field is not None:
        source = WideSource(source, options, options.field, log)
        options = replace(options, time="time", asset="asset", rename={}, field=None)
    return build_panel(_rows(source, options, log), options, log)


def build_panel(panel: RawPanel, options: Options, log: ProblemLog) -> MarketData:
    """Check an assembled panel, apply the policies, and build a `MarketData`."""
    actions = check(panel, options.policies, log)
    add_market(panel, options, log)
    arguments = build_arguments(panel, actions, options, log)
    log.raise_errors()
    sectors = sectors_of(options.sectors, arguments["assets"])
    return MarketData(**arguments, sectors=sectors, repairs=log.repairs)


def _rows(source: RowSource, options: Options, log: ProblemLog) -> RawPanel:
    surveyed = survey(source, options, log)
    if not len(surveyed.times):
        log.raise_errors()
        _reject_empty(source, surveyed.columns, options)
    return assemble(source, surveyed, options, log)


def _reject_empty(source: RowSource, columns: Columns, options: Options) -> NoReturn:
    limits = {"start": options.start, "stop": options.stop, "assets": options.assets}
    text = ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)
    if not text:
        reject("file", "no rows", source.parts[0].file)
    times = every_key(source, columns, options).times.astype("datetime64[ns]")
    span = f"; the source has rows from {times[0]} to {times[-1]}" if len(times) else ""
    reject("file", f"no rows with {text}{span}", source.parts[0].file)


def _read_stored(
    source: RowSource, stored: PanelMetadata, options: Options, log: ProblemLog
) -> MarketData:
    """Read a panel written by sekai, which was checked before and includes its masks."""
    plain = Options()
    passed = [name for name in STORED_OPTIONS if getattr(options, name) != getattr(plain, name)]
    if passed:
        raise TypeError(
            f"options {', '.join(passed)} are not allowed for data written by sekai, which define "
            f"them; omit them"
        )
    own = replace(
        options,
        time="time",
        asset="asset",
        fields=options.fields or stored.fields,
        market=[f"{MARKET_PREFIX}{name}" for name in stored.market],
        assets=options.assets or stored.assets,
    )
    panel = _empty(stored, own) if stored.rows == 0 else _rows(source, own, log)
    log.raise_errors()
    sectors = {name: stored.sectors[name] for name in panel.assets if name in stored.sectors}
    if options.sectors is not None:
        sectors = sectors_of(options.sectors, panel.assets)
    return MarketData(
        panel.times.astype("datetime64[ns]"),
        panel.assets,
        panel.fields,
        read_only(panel.values),
        **{name: read_only(mask) for name, mask in panel.masks.items()},
        market={name: panel.market[f"{MARKET_PREFIX}{name}"] for name in stored.market},
        sectors=sectors,
        timezone=stored.timezone,
        frequency=Frequency(*stored.frequency),
        warm_up=min(stored.warm_up, len(panel.times)) if options.start is None else 0,
        delist_after=stored.delist_after,
        repairs=log.repairs,
    )


def _empty(stored: PanelMetadata, options: Options) -> RawPanel:
    shape = (0, len(stored.assets))
    return RawPanel(
        np.array([], np.int64),
        stored.assets,
        stored.fields,
        np.empty((*shape, len(stored.fields))),
        np.zeros(shape, np.bool_),
        {name: np.zeros(shape, np.bool_) for name in ("listed", "quoted", "tradable")},
        {name: np.array([]) for name in options.market},
        {},
        {},
        [],
        None,
    )


def build_arguments(
    panel: RawPanel, actions: RowActions, options: Options, log: ProblemLog
) -> dict[str, Any]:
    """Build the arguments of `MarketData`: masks, forward fills, and dropped rows and assets."""
    policies = options.policies
    listed, named = _listing_table(panel, options)
    outside = panel.present & ~listed
    add_cells(panel, log, "listing", policies.listing, outside, None, "row while not listed")
    actions.dropped |= outside
    panel.values[actions.dropped] = np.nan
    panel.present &= ~actions.dropped
    alive = np.where(named, listed, _infer_listed(panel, policies, named, log))
    quoted = _quoted(panel, actions)
    tradable = quoted & panel.masks.get("tradable", np.True_)
    for fill in actions.fills:
        filled = _forward_fill(panel, fill, alive, policies, log)
        name = panel.fields[fill.field]
        traded = name in (*PRICE_FIELDS, *VOLUME_FIELDS)
        # Quotes were determined before filling: a repeated price is not a quote.
        quoted &= ~(fill.holes & ~filled) if traded else True
        tradable &= ~fill.holes & quoted if traded else True
    arguments: dict[str, Any] = {
        "times": panel.times,
        "assets": panel.assets,
        "fields": panel.fields,
        "values": panel.values,
        "listed": alive,
        "quoted": quoted,
        "tradable": tradable,
        "market": panel.market,
        "timezone": panel.timezone,
        "delist_after": policies.delist_after,
    }
    arguments = _without_empty_assets(arguments, policies, log)
    arguments = _without_empty_rows(arguments, panel, policies)
    if not arguments["assets"] or not len(arguments["times"]):
        log.raise_errors()
        reject("empty", "no rows or assets are left after the policies were applied")
    arguments["times"] = arguments["times"].astype("datetime64[ns]")
    frozen = {name: read_only(arguments[name]) for name in (*PANEL_ARRAYS, "times")}
    return {**arguments, **frozen}


def _listing_table(panel: RawPanel, options: Options) -> tuple[Bools, Bools]:
    """Mask of listed rows by the table of the user, and the assets that it names."""
    if panel.listings is not None:
        return panel.listings, np.ones(len(panel.assets), np.bool_)
    table = options.listing or {}
    if unknown := [name for name in table if name not in panel.assets]:
        raise ValueError(f"listing: {unknown_name('asset', unknown[0], panel.assets)}")
    listed = np.ones(panel.present.shape, np.bool_)
    for column, asset in enumerate(panel.assets):
        first, last = table.get(asset, (None, None))
        if first is not None:
            listed[:, column] &= panel.times >= nanoseconds(first, options.timezone)
        if last is not None:
            listed[:, column] &= panel.times <= nanoseconds(last, options.timezone)
    return listed, np.array([asset in table for asset in panel.assets])


def _infer_listed(panel: RawPanel, policies: Policies, named: Bools, log: ProblemLog) -> Bools:
    """Mask of listed rows from a column of the source, or else from its rows."""
    if "listed" in panel.masks:
        # In a row without the asset the last value holds.
        rows = np.arange(len(panel.present))[:, None]
        last = np.maximum.accumulate(np.where(panel.present, rows, -1), axis=0)
        flags = np.take_along_axis(panel.masks["listed"], np.maximum(last, 0), axis=0)
        return flags & (last >= 0)
    rule = policies.delist_after
    if rule is None:
        return lifetimes(panel.present)
    times = panel.times.astype("datetime64[ns]")
    listed = lifetimes(panel.present, rule, Calendar(times, panel.timezone).day_numbers)
    names = [name for name, is_named in zip(panel.assets, named, strict=True) if not is_named]
    seen = panel.present[:, ~named]
    for delisting in inferred_delistings(seen, listed[:, ~named], times, names, rule):
        log.add(delisting)
    return listed


def _quoted(panel: RawPanel, actions: RowActions) -> Bools:
    quoted = panel.present & ~actions.halted
    for index, name in enumerate(panel.fields):
        if name in PRICE_FIELDS or not set(panel.fields) & set(PRICE_FIELDS):
            quoted &= np.isfinite(panel.values[:, :, index])
    for mask in ("listed", "quoted"):
        quoted &= panel.masks.get(mask, np.True_)
    return quoted


def _forward_fill(
    panel: RawPanel, fill: Fill, alive: Bools, policies: Policies, log: ProblemLog
) -> Bools:
    """Forward fill within the limit and the listing; return the mask of filled cells."""
    column = panel.values[:, :, fill.field]
    rows = np.arange(len(column))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(column), -1, rows), axis=0)
    holes = fill.holes & (panel.present | (fill.kind is None))
    near = rows - last <= (policies.fill_limit or len(column))
    filled: Bools = holes & (last >= 0) & near & alive
    at, asset = np.nonzero(filled)
    column[at, asset] = column[last[at, asset], asset]
    if fill.kind is not None:
        name = panel.fields[fill.field]
        add_cells(panel, log, fill.kind, "forward_fill", filled, name, column)
        rest, message = holes & ~filled, "missing value, and no earlier value to repeat"
        add_cells(panel, log, fill.kind, "halt", rest, name, message)
    return filled


def _without_empty_assets(
    arguments: dict[str, Any], policies: Policies, log: ProblemLog
) -> dict[str, Any]:
    quotes = arguments["quoted"].any(axis=0)
    empty = [name for name, some in zip(arguments["assets"], quotes, strict=True) if not some]
    for asset in empty:
        log.add(Problem("empty", "no quotes", asset, policy=policies.empty))
    if not empty or policies.empty == "error":
        return arguments
    rest = {name: arguments[name][:, quotes] for name in PANEL_ARRAYS}
    names = tuple(name for name in arguments["assets"] if name not in empty)
    return {**arguments, **rest, "assets": names}


def _without_empty_rows(
    arguments: dict[str, Any], panel: RawPanel, policies: Policies
) -> dict[str, Any]:
    """Drop times without a row, or without a row of every asset for `intersection`."""
    columns = [panel.assets.index(name) for name in arguments["assets"]]
    present = panel.present if len(columns) == len(panel.assets) else panel.present[:, columns]
    rows = present.all(axis=1) if policies.calendars == "intersection" else present.any(axis=1)
    if rows.all():
        return arguments
    cut = {name: arguments[name][rows] for name in (*PANEL_ARRAYS, "times")}
    market = {name: series[rows] for name, series in arguments["market"].items()}
    return {**arguments, **cut, "market": market}


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array without other owners read-only, so that it need not be copied."""
    array.flags.writeable = False
    return array
