"""Data sets bundled with other installed packages; nothing is downloaded."""

from __future__ import annotations

import csv
import gzip
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import MarketData
from sekai.error import DataError, MissingExtraError
from sekai.storage.names import unknown_name

Floats = NDArray[np.float64]

NEW_YORK = "America/New_York"
CLOSE = time(16)


@dataclass(frozen=True, slots=True)
class BundledSet:
    """Description of a bundled data set."""

    name: str
    package: str
    """Package to install with pip."""

    assets: tuple[str, ...]
    fields: tuple[str, ...]
    first: str
    """First day."""

    last: str
    """Last day."""

    about: str


SECTORS = {
    "AAPL": "Information Technology",
    "AMD": "Information Technology",
    "BAC": "Financials",
    "BBY": "Consumer Discretionary",
    "CVX": "Energy",
    "FB": "Communication Services",
    "GE": "Industrials",
    "GOOG": "Communication Services",
    "HD": "Consumer Discretionary",
    "IBM": "Information Technology",
    "JNJ": "Health Care",
    "JPM": "Financials",
    "KO": "Consumer Staples",
    "LLY": "Health Care",
    "MRK": "Health Care",
    "MSFT": "Information Technology",
    "PEP": "Consumer Staples",
    "PFE": "Health Care",
    "PG": "Consumer Staples",
    "RRC": "Energy",
    "UNH": "Health Care",
    "WMT": "Consumer Staples",
    "XOM": "Energy",
}
"""GICS sectors of the stocks at the end of 2022."""

SP500 = BundledSet(
    name="sp500",
    package="skfolio",
    assets=tuple(name for name in SECTORS if name not in ("FB", "GOOG", "IBM")),
    fields=("close",),
    first="1990-01-02",
    last="2022-12-28",
    about="daily closes of 20 stocks of the S&P 500, adjusted for splits and dividends",
)

BOKEH_STOCKS = BundledSet(
    name="bokeh_stocks",
    package="bokeh_sampledata",
    assets=("AAPL", "FB", "GOOG", "IBM", "MSFT"),
    fields=("open", "high", "low", "close", "volume"),
    first="2000-03-01",
    last="2013-03-01",
    about="daily bars of 5 stocks, adjusted for splits and dividends; GOOG and FB list later",
)


def bundled_sets() -> tuple[BundledSet, ...]:
    """List the known data sets, installed or not."""
    return tuple(description for description, _ in LOADERS.values())


def load_bundled(name: str) -> MarketData:
    """Load a bundled data set by name, with the sectors of its assets.

    Daily rows have the timestamp of the close, 16:00 in New York. Prices are adjusted for splits
    and dividends, so that returns are total returns.

    Raises:
        MissingExtraError: if the package of the data set is not installed.
        DataError: if that package contains other data than expected.
    """
    if name not in LOADERS:
        raise ValueError(unknown_name("data set", name, LOADERS))
    description, load = LOADERS[name]
    days, values = load(description)
    return MarketData(
        _at_close(days),
        description.assets,
        description.fields,
        values,
        timezone=NEW_YORK,
        sectors={asset: SECTORS[asset] for asset in description.assets},
    )


def _load_sp500(known: BundledSet) -> tuple[Sequence[str], Floats]:
    # Located without importing the package, which takes seconds.
    path = _folder(known) / "datasets" / "data" / "sp500_dataset.csv.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
    except (OSError, EOFError, ValueError) as error:
        raise _changed(known, str(error)) from error
    if tuple(header[1:]) != known.assets:
        raise _changed(known, f"columns {header}")
    values = np.array([row[1:] for row in rows], np.float64)
    return [row[0] for row in rows], values[:, :, None]


def _load_bokeh(known: BundledSet) -> tuple[Sequence[str], Floats]:
    _folder(known)
    stocks: Any = importlib.import_module("bokeh_sampledata.stocks")
    columns = {name: getattr(stocks, name) for name in known.assets}
    days = sorted({day for series in columns.values() for day in series["date"]})
    row_of = {day: row for row, day in enumerate(days)}
    values = np.full((len(days), len(known.assets), len(known.fields)), np.nan)
    for column, series in enumerate(columns.values()):
        values[[row_of[day] for day in series["date"]], column] = _adjusted(series)
    return days, values


def _adjusted(series: dict[str, list[float]]) -> Floats:
    """Bars adjusted for splits, with unchanged traded value."""
    bars: Floats = np.array([series[name] for name in BOKEH_STOCKS.fields], np.float64).T
    factor = np.array(series["adj_close"]) / bars[:, 3]
    bars[:, :4] *= factor[:, None]
    bars[:, 4] /= factor
    return bars


def _folder(known: BundledSet) -> Path:
    spec = importlib.util.find_spec(known.package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            f"data set {known.name!r} requires the package {known.package!r}; install it by "
            f"pip install {known.package}"
        )
    return Path(spec.submodule_search_locations[0])


def _changed(known: BundledSet, content: str) -> DataError:
    return DataError(
        f"unexpected data in {known.package}: {content}; expected {known.about}; install another "
        "release of it"
    )


def _at_close(days: Sequence[str]) -> NDArray[np.datetime64]:
    zone = ZoneInfo(NEW_YORK)
    closes = (datetime.combine(date.fromisoformat(day), CLOSE, zone) for day in days)
    utc = [moment.astimezone(timezone.utc).replace(tzinfo=None) for moment in closes]
    return np.array(utc, "datetime64[ns]")


LOADERS: dict[str, tuple[BundledSet, Callable[[BundledSet], tuple[Sequence[str], Floats]]]] = {
    SP500.name: (SP500, _load_sp500),
    BOKEH_STOCKS.name: (BOKEH_STOCKS, _load_bokeh),
}
