"""Market data that other packages bring along: nothing is downloaded."""

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

__all__ = ["BundledSet", "bundled_sets", "load_bundled"]

Floats = NDArray[np.float64]

NEW_YORK = "America/New_York"
CLOSE = time(16)


@dataclass(frozen=True, slots=True)
class BundledSet:
    """A set that a package brings along."""

    name: str
    package: str
    """What to install with pip."""

    assets: tuple[str, ...]
    fields: tuple[str, ...]
    first: str
    """Its first day."""

    last: str
    """Its last day."""

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
"""The GICS sectors of the stocks in the sets, as they were at the end of 2022."""

SP500 = BundledSet(
    name="sp500",
    package="skfolio",
    assets=(
        "AAPL", "AMD", "BAC", "BBY", "CVX", "GE", "HD", "JNJ", "JPM", "KO",
        "LLY", "MRK", "MSFT", "PEP", "PFE", "PG", "RRC", "UNH", "WMT", "XOM",
    ),
    fields=("close",),
    first="1990-01-02",
    last="2022-12-28",
    about="daily closes of 20 stocks of the S&P 500, adjusted for splits and dividends",
)  # fmt: skip

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
    """The sets there are; whether their packages are installed is seen when one is loaded."""
    return tuple(known for known, _ in LOADERS.values())


def load_bundled(name: str) -> MarketData:
    """A set by its name, with the sectors of its assets.

    Days are stamped when they were over: at 16:00 in New York. Prices are adjusted for splits and
    dividends, so that returns are what a holder earned.

    Raises:
        MissingExtraError: when the package that brings it is not installed.
        DataError: when that package holds something else than it used to.
    """
    if name not in LOADERS:
        raise ValueError(f"a set among {', '.join(LOADERS)} was wanted, found {name!r}")
    known, load = LOADERS[name]
    days, values = load(known)
    return MarketData(
        _at_close(days), known.assets, known.fields, values, timezone=NEW_YORK,
        sectors={asset: SECTORS[asset] for asset in known.assets},
    )  # fmt: skip


def _load_sp500(known: BundledSet) -> tuple[Sequence[str], Floats]:
    # Its folder is found without importing the package, which takes seconds.
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
    place_of = {day: place for place, day in enumerate(days)}
    values = np.full((len(days), len(known.assets), len(known.fields)), np.nan)
    for place, series in enumerate(columns.values()):
        rows = [place_of[day] for day in series["date"]]
        values[rows, place] = _adjusted(series)
    return days, values


def _adjusted(series: dict[str, list[float]]) -> Floats:
    """Bars in which a split is no loss: as many dollars traded, as much earned."""
    bars: Floats = np.array([series[name] for name in BOKEH_STOCKS.fields], np.float64).T
    factor = np.array(series["adj_close"]) / bars[:, 3]
    bars[:, :4] *= factor[:, None]
    bars[:, 4] /= factor
    return bars


def _folder(known: BundledSet) -> Path:
    found = importlib.util.find_spec(known.package)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            f"the set {known.name!r} needs the package {known.package!r}, which is not installed: "
            f"pip install {known.package}"
        )
    return Path(found.submodule_search_locations[0])


def _changed(known: BundledSet, found: str) -> DataError:
    return DataError(
        f"{known.package} was wanted with {known.about}, found {found}: "
        "another release of it may have them"
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
