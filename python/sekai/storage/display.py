"""Short representations: shapes of arrays, clipped lists of names, HTML tables of notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

__all__ = ["brief_repr", "brief_value", "html_table", "name_list", "short_time"]

LONGEST = 80
"""Characters of a value in a repr."""
SHOWN_NAMES = 8
SHOWN_ROWS = 20


def brief_repr(self: Any) -> str:
    """Representation of a dataclass with arrays by dtype and shape; assign it to `__repr__`."""
    parts = (f"{each.name}={brief_value(getattr(self, each.name))}" for each in fields(self))
    return f"{type(self).__name__}({', '.join(parts)})"


def brief_value(value: Any) -> str:
    """Representation in at most 80 characters; arrays by dtype and shape."""
    if isinstance(value, np.ndarray):
        short = repr(value.tolist()) if value.size <= SHOWN_NAMES and value.dtype != "M" else ""
        return short if 0 < len(short) <= LONGEST else f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping) and any(isinstance(item, np.ndarray) for item in value.values()):
        return f"{{{name_list(list(map(str, value)))}}}"
    if isinstance(value, np.datetime64):
        return short_time(value)
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


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
    cells = (f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values)
    return f"<tr>{''.join(cells)}</tr>"
