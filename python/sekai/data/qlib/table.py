"""Fields and expressions of many symbols as one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.qlib.expressions import Expression, column_of
from sekai.error import DataError

if TYPE_CHECKING:
    from sekai.data.qlib.provider import QlibProvider

__all__ = ["features"]


def features(
    provider: QlibProvider, symbols: Sequence[str] | None, fields: Sequence[str],
    ends: tuple[Any, Any], freq: str, market: str,
) -> NDArray[np.void]:  # fmt: skip
    """See `QlibProvider.features`."""
    if isinstance(fields, str) or isinstance(symbols, str):
        raise TypeError("lists of symbols and fields were wanted, found text")
    expressions = [Expression.parse(field) for field in fields]
    if not expressions or len(set(fields)) != len(fields):
        raise DataError(f"one field or more, each once, was wanted, found {list(fields)}")
    wanted = provider.instruments(market, freq) if symbols is None else symbols
    names = [provider.symbol(name, freq, market) for name in wanted]
    limits = provider.slots(*ends, freq=freq)
    parts = [_part(provider, name, expressions, limits, freq, market) for name in names]
    width = max((len(name) for name in names), default=1)
    kind = [("instrument", f"<U{width}"), ("datetime", "datetime64[ns]")]
    table = np.empty(
        sum(len(times) for times, _ in parts), [*kind, *((name, "<f4") for name in fields)]
    )
    begin = 0
    for name, (times, columns) in zip(names, parts, strict=True):
        rows = table[begin : begin + len(times)]
        begin += len(times)
        rows["instrument"], rows["datetime"] = name, times
        for field, column in zip(fields, columns, strict=True):
            rows[field] = column
    return table


def _part(
    provider: QlibProvider, symbol: str, expressions: Sequence[Expression],
    limits: tuple[int, int], freq: str, market: str,
) -> tuple[NDArray[np.datetime64], list[NDArray[np.float32]]]:  # fmt: skip
    used = sorted({column for expression in expressions for column in expression.columns})
    extents = [provider.extent(symbol, column, freq) for column in used]
    first = max(limits[0], min(begin for begin, _ in extents))
    stop = max(first, min(limits[1], max(end for _, end in extents)))
    listed = provider.listed(symbol, first, stop, freq, market)
    columns = [column_of(provider, symbol, one, first, stop, freq) for one in expressions]
    times = provider.calendar(freq)[first:stop]
    if listed.all():
        return times, columns
    return times[listed], [column[listed] for column in columns]
