"""Reads a source from beginning to end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sekai.data.calendar import Frequency
from sekai.data.market_data import MarketData
from sekai.data.problems import Problems
from sekai.data.reading.assemble import Assembled, assemble
from sekai.data.reading.checks import check
from sekai.data.reading.columns import refuse
from sekai.data.reading.csv_files import CsvSource
from sekai.data.reading.extras import needed
from sekai.data.reading.files import CSV_SUFFIXES
from sekai.data.reading.finish import finish, sealed
from sekai.data.reading.frames import FrameSource
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.options import Options, is_path
from sekai.data.reading.parquet_files import ParquetSource
from sekai.data.reading.sides import add_market, sectors_of
from sekai.data.reading.source import Source
from sekai.data.reading.stored import MARKET_PREFIX, Stored
from sekai.data.reading.survey import survey
from sekai.data.reading.wide import WideSource
from sekai.error import DataError

__all__ = ["all_problems", "panel_of", "read_csv_files", "read_frame", "read_parquet_files"]

Path_ = str | os.PathLike[str]


def read_parquet_files(path: Path_, given: Mapping[str, Any]) -> MarketData:
    """See `MarketData.from_parquet`."""
    needed("pyarrow", "MarketData.from_parquet")
    options = Options.of(given)
    return _read(ParquetSource(path, options), options, Ledger())


def read_csv_files(path: Path_, given: Mapping[str, Any]) -> MarketData:
    """See `MarketData.from_csv`."""
    needed("pyarrow", "MarketData.from_csv")
    options = Options.of(given)
    return _read(CsvSource(path, options), options, Ledger())


def read_frame(frame: Any, given: Mapping[str, Any]) -> MarketData:
    """See `MarketData.from_frame`."""
    return _read(FrameSource(frame), Options.of(given), Ledger())


def all_problems(source: Any, given: Mapping[str, Any]) -> Problems:
    """See `sekai.data.inspect`."""
    needed("pyarrow", "sekai.data.inspect")
    ledger = Ledger()
    options = Options.of(given)
    try:
        _read(_source(source, options), options, ledger)
    except DataError as error:
        # What left nothing to be read is not in the ledger.
        return Problems([*ledger.parts, *([] if ledger.raised else error.problems)])
    return ledger.everything


def _source(source: Any, options: Options) -> Source:
    if not is_path(source):
        return FrameSource(source)
    place = Path(source)
    names = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    packed = any(file.name.lower().endswith(CSV_SUFFIXES) for file in names)
    return CsvSource(place, options) if packed else ParquetSource(place, options)


def _read(source: Source, options: Options, ledger: Ledger) -> MarketData:
    stored = Stored.found_in(source.parts[0].schema, source.parts[0].file)
    if stored is not None:
        return _read_stored(source, stored, options, ledger)
    if options.field is not None:
        source = WideSource(source, options, options.field)
        options = replace(options, time="time", asset="asset", rename={}, field=None)
    return panel_of(_rows(source, options, ledger), options, ledger)


def panel_of(panel: Assembled, options: Options, ledger: Ledger) -> MarketData:
    """A panel of what was found in a source, checked and with all that its policies ask for."""
    verdict = check(panel, options.policies, ledger)
    add_market(panel, options, ledger)
    made_of = finish(panel, verdict, options, ledger)
    ledger.raise_errors()
    sectors = sectors_of(options.sectors)
    known = {name: sectors[name] for name in made_of["assets"] if name in sectors}
    return MarketData(**made_of, sectors=known, repairs=ledger.repairs)


def _rows(source: Source, options: Options, ledger: Ledger) -> Assembled:
    found = survey(source, options, ledger)
    if not len(found.times):
        ledger.raise_errors()
        _nothing(source, options)
    return assemble(source, found, options, ledger)


def _nothing(source: Source, options: Options) -> NoReturn:
    asked = {"start": options.start, "stop": options.stop, "assets": options.assets}
    limits = ", ".join(f"{name}={value}" for name, value in asked.items() if value is not None)
    refuse("file", f"not a single row{f' with {limits}' if limits else ''}", source.parts[0].file)


def _read_stored(source: Source, stored: Stored, options: Options, ledger: Ledger) -> MarketData:
    """A panel that sekai wrote: it was checked when it was made, and its masks are with it."""
    _refuse_what_is_told(options)
    own = replace(
        options, time="time", asset="asset", fields=options.fields or stored.fields,
        market=[f"{MARKET_PREFIX}{name}" for name in stored.market],
        assets=options.assets or stored.assets,
    )  # fmt: skip
    panel = _empty(stored, own) if stored.rows == 0 else _rows(source, own, ledger)
    ledger.raise_errors()
    sectors = stored.sectors if options.sectors is None else sectors_of(options.sectors)
    return MarketData(
        panel.times.astype("datetime64[ns]"), panel.assets, panel.fields, sealed(panel.values),
        **{name: sealed(mask) for name, mask in panel.masks.items()},
        market={name: panel.market[f"{MARKET_PREFIX}{name}"] for name in stored.market},
        sectors={name: sectors[name] for name in panel.assets if name in sectors},
        timezone=stored.timezone, frequency=Frequency(*stored.frequency),
        warm_up=min(stored.warm_up, len(panel.times)) if options.start is None else 0,
        delist_after=stored.delist_after,
        repairs=ledger.repairs,
    )  # fmt: skip


def _refuse_what_is_told(options: Options) -> None:
    plain = Options()
    told = (
        "time", "asset", "rename", "field", "market", "listing", "timezone", "time_unit",
        "time_format", "known_after",
    )  # fmt: skip
    said = [name for name in told if getattr(options, name) != getattr(plain, name)]
    if said:
        raise TypeError(
            f"sekai wrote these data, and they tell {', '.join(said)} themselves: leave that out"
        )


def _empty(stored: Stored, options: Options) -> Assembled:
    shape = (0, len(stored.assets))
    return Assembled(
        np.array([], np.int64), stored.assets, stored.fields,
        np.empty((*shape, len(stored.fields))), np.zeros(shape, np.bool_),
        {name: np.zeros(shape, np.bool_) for name in ("listed", "quoted", "tradable")},
        {name: np.array([]) for name in options.market}, {}, {}, [], None,
    )  # fmt: skip
