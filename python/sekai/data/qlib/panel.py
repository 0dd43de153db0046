"""Reads a provider directory as a panel."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.problems import Problem
from sekai.data.qlib.expressions import Expression, column_of
from sekai.data.qlib.options import QlibOptions
from sekai.data.qlib.provider import QlibProvider
from sekai.data.reading.assemble import Assembled
from sekai.data.reading.columns import VOLUME_FIELDS, refuse
from sekai.data.reading.ledger import Ledger
from sekai.data.reading.options import Options
from sekai.data.reading.read import panel_of
from sekai.data.reading.stamps import localised

__all__ = ["read_panel"]

Bools = NDArray[np.bool_]
MASKS = ("quoted", "tradable")
PLAIN = re.compile(r"\$?\w+")


def read_panel(
    root: str | os.PathLike[str] | Mapping[str, Any], given: Mapping[str, Any]
) -> MarketData:
    """See `MarketData.from_qlib`."""
    options = QlibOptions.of(given)
    general = Options(
        sectors=options.sectors, timezone=options.timezone, known_after=options.known_after,
        policies=options.policies,
    )  # fmt: skip
    provider = QlibProvider(root)
    ledger = Ledger()
    symbols = _with_folders(provider, _symbols(provider, options), options, ledger)
    fields = _fields(provider, symbols, options, ledger)
    first, stop = provider.slots(options.start, options.end, options.freq)
    if first == stop or not symbols:
        told = f"start={options.start}, end={options.end}, market={options.market}"
        refuse("file", f"not a single row with {told}", provider.roots[provider.frequencies[0]])
    panel = _assembled(provider, symbols, fields, (first, stop), options, ledger)
    return panel_of(panel, general, ledger)


def _symbols(provider: QlibProvider, options: QlibOptions) -> list[str]:
    if options.symbols is None:
        return list(provider.instruments(options.market, options.freq))
    if isinstance(options.symbols, str):
        raise TypeError(f"symbols must be a list of names, was {options.symbols!r}")
    return [provider.symbol(name, options.freq, options.market) for name in options.symbols]


def _with_folders(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, ledger: Ledger
) -> list[str]:
    """The symbols without those of which there is nothing but a line, if a policy says so."""
    there = [name for name in symbols if provider.has_folder(name, options.freq)]
    policy = options.policies.empty
    for name in sorted(set(symbols) - set(there)):
        ledger.add(Problem("empty", "an instrument without a folder", name, policy=policy))
    if policy == "error":
        ledger.raise_errors()
    return there


def _fields(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, ledger: Ledger
) -> dict[str, str]:
    """The expression of each field."""
    if isinstance(options.fields, str):
        raise TypeError(f"fields must be a list of names, was {options.fields!r}")
    if isinstance(options.fields, Mapping):
        return dict(options.fields)
    if options.fields is not None:
        plain = {name: PLAIN.fullmatch(name) is not None for name in options.fields}
        return {
            name.removeprefix("$") if plain[name] else name:
            f"${name.removeprefix('$')}" if plain[name] else name
            for name in options.fields
        }  # fmt: skip
    return {name: f"${name}" for name in _shared(provider, symbols, options, ledger)}


def _shared(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, ledger: Ledger
) -> list[str]:
    """The fields that every symbol has; one that only some have is a problem."""
    found = {symbol: set(provider.fields(symbol, options.freq)) for symbol in symbols}
    every = {name.removeprefix("$") for names in found.values() for name in names} - set(MASKS)
    known = (*PRICE_FIELDS, *VOLUME_FIELDS)
    order = [name for name in known if name in every] + sorted(every - set(known))
    for name in list(order):
        lacking = next((symbol for symbol in symbols if f"${name}" not in found[symbol]), None)
        if lacking is not None:
            what = f"no field ${name} of {lacking}, which other symbols have"
            ledger.add(Problem("column", what, field=name, policy=options.policies.columns))
            order.remove(name)
    if not order:
        ledger.raise_errors()
        refuse("column", "no field that every symbol has")
    return order


def _assembled(
    provider: QlibProvider, symbols: Sequence[str], fields: Mapping[str, str],
    slots: tuple[int, int], options: QlibOptions, ledger: Ledger,
) -> Assembled:  # fmt: skip
    shape = (slots[1] - slots[0], len(symbols))
    listed = np.zeros(shape, np.bool_)
    values = np.empty((len(fields), *shape[::-1]), np.float32)
    parsed = [Expression.parse(text) for text in fields.values()]
    for place, symbol in enumerate(symbols):
        ranges = (symbol, *slots, options.freq, options.market)
        listed[:, place] = provider.listed(*ranges)
        for number, expression in enumerate(parsed):
            values[number, place] = column_of(provider, symbol, expression, *slots, options.freq)
    # Files hold a field of a symbol in one piece, panels a row.
    wide = values.transpose(2, 1, 0).astype(np.float64, order="C")
    wide[~listed] = np.nan
    valued = ~np.isnan(wide).all(axis=2)
    masks = _masks(provider, symbols, slots, options, valued)
    given = options.policies.calendars == "error"
    return Assembled(
        times=_times(provider, slots, options, ledger), assets=tuple(symbols),
        fields=tuple(fields), values=wide, present=listed.copy() if given else listed & valued,
        masks=masks, market={}, disputed={}, listings=listed,
        unread={name: np.array([], np.int64) for name in fields},
        files=[provider.roots.get(options.freq)],
        file_of=None, timezone=None if options.timezone == "UTC" else options.timezone,
    )  # fmt: skip


def _masks(
    provider: QlibProvider, symbols: Sequence[str], slots: tuple[int, int], options: QlibOptions,
    valued: Bools,
) -> dict[str, Bools]:  # fmt: skip
    """What the source says of quotes: without a value there is none, and fields may say more."""
    masks = {"quoted": valued, "tradable": np.ones(valued.shape, np.bool_)}
    for place, symbol in enumerate(symbols):
        for name in MASKS:
            if provider.has_field(symbol, name, options.freq):
                said = provider.values(symbol, f"${name}", *slots, options.freq)
                masks[name][:, place] &= said == 1
    return masks


def _times(
    provider: QlibProvider, slots: tuple[int, int], options: QlibOptions, ledger: Ledger
) -> NDArray[np.int64]:
    """The instants at which rows are known."""
    shown = provider.calendar(options.freq)[slots[0] : slots[1]].astype(np.int64)
    if options.timezone is None and np.any(shown % DAY):
        ledger.add(Problem("time_zone", "times of day without a zone"))
    late = round(options.known_after / timedelta(microseconds=1)) * 1000
    stamps = localised(shown + late, options.timezone)
    for kind, row, what in stamps.wrong:
        moment = stamps.instants[row].astype("datetime64[ns]")
        ledger.add(Problem(kind, what, time=moment, until=moment))
    return stamps.instants
