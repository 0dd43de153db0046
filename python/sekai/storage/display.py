"""Short representations: shapes of arrays, clipped lists of names, HTML tables of notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np

LONGEST = 80
"""Characters of a value in a repr."""
SHOWN_NAMES = 8
SHOWN_ROWS = 20


def brief_repr(self: Any) -> str:
    """Representation of a dataclass with arrays by dtype and shape; assign it to `__repr__`."""
    parts = (f"{each.name}={brief_value(getattr(self, each.name))}" for each in fields(self))
    return f"{type(self).__name__}({', '.join(parts)})"


def brief_value(value: Any) -> str:
    """Representation in about 80 characters; arrays by dtype and shape, long mappings clipped."""
    if isinstance(value, np.ndarray):
        short = repr(value.tolist()) if value.size <= SHOWN_NAMES and value.dtype != "M" else ""
        return short if 0 < len(short) <= LONGEST else f"{value.dtype}{list(value.shape)}"
    if isinstance(value, np.datetime64):
        return short_time(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, Mapping):
        first = islice(value.items(), SHOWN_NAMES)
        return f"{{{_clipped([f'{key!r}: {brief_value(item)}' for key, item in first], value)}}}"
    if type(value) in (list, tuple):
        begin, end = "[]" if isinstance(value, list) else "()"
        return f"{begin}{_clipped([brief_value(item) for item in value[:SHOWN_NAMES]], value)}{end}"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _clipped(shown: Sequence[str], values: Sized) -> str:
    more = len(values) - len(shown)
    return ", ".join(shown) + (f", ... {more} more" if more else "")


def name_list(names: Sequence[str], shown: int = SHOWN_NAMES) -> str:
    """Names separated by commas, or the first of many and their number."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def short_time(time: np.datetime64) -> str:
    """Timestamp without zeros at its end."""
    text = str(time).replace("T", " ")
    for zeros in (".000000000", ":00", " 00:00"):
        text = text.removesuffix(zeros)
    return text


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """HTML table of a notebook, with the first rows of many."""
    lines = list(rows)
    cells = [_row(header, "th"), *(_row(row, "td") for row in lines[:SHOWN_ROWS])]
    if len(lines) > SHOWN_ROWS:
        cells.append(_row([f"and {len(lines) - SHOWN_ROWS} more"], "td"))
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(cells)}</table>"


def _row(values: Sequence[object], tag: str) -> str:
    # Dates and names would break at their hyphens on a narrow page; notebooks scroll.
    style = ' style="white-space:nowrap"'
    cells = (f"<{tag}{style}>{html.escape(str(value))}</{tag}>" for value in values)
    return f"<tr>{''.join(cells)}</tr>"
