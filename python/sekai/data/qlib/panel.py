"""Read a Qlib provider directory as a panel."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.calendar import DAY
from sekai.data.market_data import PRICE_FIELDS, MarketData
from sekai.data.problems import Policies, Problem
from sekai.data.qlib.expression import Expression, column_of
from sekai.data.qlib.provider import QlibProvider
from sekai.data.reading.assemble import ProblemLog, RawPanel
from sekai.data.reading.decoding import localize
from sekai.data.reading.options import VOLUME_FIELDS, Options, reject
from sekai.data.reading.read import build_panel

Bools = NDArray[np.bool_]
MASKS = ("quoted", "tradable")
PLAIN = re.compile(r"\$?\w+")


def read_panel(
    root: str | os.PathLike[str] | Mapping[str, Any], arguments: Mapping[str, Any]
) -> MarketData:
    """Read a panel, see `MarketData.from_qlib`."""
    options = QlibOptions(**arguments)
    general = Options(
        sectors=options.sectors,
        timezone=options.timezone,
        known_after=options.known_after,
        policies=options.policies,
    )
    provider = QlibProvider(root)
    log = ProblemLog()
    symbols = _with_folders(provider, _symbols(provider, options), options, log)
    fields = _fields(provider, symbols, options, log)
    first, stop = provider.slots(options.start, options.end, options.freq)
    if first == stop or not symbols:
        limits = f"start={options.start}, end={options.end}, market={options.market}"
        reject("file", f"no rows with {limits}", provider.roots[provider.frequencies[0]])
    panel = _assemble(provider, symbols, fields, (first, stop), options, log)
    return build_panel(panel, general, log)


def _symbols(provider: QlibProvider, options: QlibOptions) -> list[str]:
    if options.symbols is None:
        return list(provider.instruments(options.market, options.freq))
    if isinstance(options.symbols, str):
        raise TypeError(f"symbols must be a list of names, got {options.symbols!r}")
    return [provider.symbol(name, options.freq, options.market) for name in options.symbols]


def _with_folders(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, log: ProblemLog
) -> list[str]:
    """Symbols with a feature folder; others are a problem."""
    existing = [name for name in symbols if provider.has_folder(name, options.freq)]
    policy = options.policies.empty
    for name in sorted(set(symbols) - set(existing)):
        log.add(Problem("empty", "instrument without a folder", name, policy=policy))
    if policy == "error":
        log.raise_errors()
    return existing


def _fields(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, log: ProblemLog
) -> dict[str, str]:
    """Expression of each field."""
    if isinstance(options.fields, str):
        raise TypeError(f"fields must be a list of names, got {options.fields!r}")
    if isinstance(options.fields, Mapping):
        return dict(options.fields)
    if options.fields is None:
        return {name: f"${name}" for name in _shared(provider, symbols, options, log)}
    expressions = {}
    for text in options.fields:
        name = text.removeprefix("$")
        is_plain = PLAIN.fullmatch(text) is not None
        expressions[name if is_plain else text] = f"${name}" if is_plain else text
    return expressions


def _shared(
    provider: QlibProvider, symbols: Sequence[str], options: QlibOptions, log: ProblemLog
) -> list[str]:
    """Fields that every symbol has; one that only some have is a problem."""
    fields = {symbol: set(provider.fields(symbol, options.freq)) for symbol in symbols}
    every = {name.removeprefix("$") for names in fields.values() for name in names} - set(MASKS)
    known = (*PRICE_FIELDS, *VOLUME_FIELDS)
    order = [name for name in known if name in every] + sorted(every - set(known))
    for name in list(order):
        lacking = next((symbol for symbol in symbols if f"${name}" not in fields[symbol]), None)
        if lacking is not None:
            message = f"missing field ${name} of {lacking}, which other symbols have"
            log.add(Problem("column", message, field=name, policy=options.policies.columns))
            order.remove(name)
    if not order:
        log.raise_errors()
        reject("column", "no field is common to all symbols")
    return order


def _assemble(
    provider: QlibProvider,
    symbols: Sequence[str],
    fields: Mapping[str, str],
    slots: tuple[int, int],
    options: QlibOptions,
    log: ProblemLog,
) -> RawPanel:
    shape = (slots[1] - slots[0], len(symbols))
    listed = np.zeros(shape, np.bool_)
    values = np.empty((len(fields), *shape[::-1]), np.float32)
    expressions = [Expression.parse(text) for text in fields.values()]
    for column, symbol in enumerate(symbols):
        listed[:, column] = provider.listed(symbol, *slots, options.freq, options.market)
        for index, expression in enumerate(expressions):
            values[index, column] = column_of(provider, symbol, expression, *slots, options.freq)
    # Files are contiguous by field and symbol, panels by row.
    wide = values.transpose(2, 1, 0).astype(np.float64, order="C")
    wide[~listed] = np.nan
    valued = ~np.isnan(wide).all(axis=2)
    masks = _masks(provider, symbols, slots, options, valued)
    is_error = options.policies.calendars == "error"
    return RawPanel(
        times=_times(provider, slots, options, log),
        assets=tuple(symbols),
        fields=tuple(fields),
        values=wide,
        present=listed.copy() if is_error else listed & valued,
        masks=masks,
        market={},
        disputed={},
        listings=listed,
        unread={name: np.array([], np.int64) for name in fields},
        files=[provider.roots.get(options.freq)],
        file_of=None,
        timezone=None if options.timezone == "UTC" else options.timezone,
    )


def _masks(
    provider: QlibProvider,
    symbols: Sequence[str],
    slots: tuple[int, int],
    options: QlibOptions,
    valued: Bools,
) -> dict[str, Bools]:
    """Masks of the source: quoted where there is a value, restricted by mask fields."""
    masks = {"quoted": valued, "tradable": np.ones(valued.shape, np.bool_)}
    for column, symbol in enumerate(symbols):
        for name in MASKS:
            if provider.has_field(symbol, name, options.freq):
                flags = provider.values(symbol, f"${name}", *slots, options.freq)
                masks[name][:, column] &= flags == 1
    return masks


def _times(
    provider: QlibProvider, slots: tuple[int, int], options: QlibOptions, log: ProblemLog
) -> NDArray[np.int64]:
    local = provider.calendar(options.freq)[slots[0] : slots[1]].astype(np.int64)
    if options.timezone is None and np.any(local % DAY):
        log.add(Problem("time_zone", "times of day without a time zone"))
    delay = round(options.known_after / timedelta(microseconds=1)) * 1000
    times = localize(local + delay, options.timezone)
    for kind, row, message in times.wrong:
        time = times.instants[row].astype("datetime64[ns]")
        log.add(Problem(kind, message, time=time, until=time))
    return times.instants


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QlibOptions:
    """Options of `MarketData.from_qlib`, which documents them."""

    freq: str = "day"
    market: str = "all"
    symbols: Sequence[str] | None = None
    fields: Sequence[str] | Mapping[str, str] | None = None
    start: Any = None
    end: Any = None
    sectors: Any = None
    timezone: str | None = None
    known_after: timedelta = timedelta(0)
    policies: Policies = dataclasses.field(default_factory=Policies)
