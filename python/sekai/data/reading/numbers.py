"""Columns of numbers, flags and names, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.reading.extras import arrow, compute

__all__ = ["decode_flags", "decode_names", "decode_numbers", "holds"]

NUMBER = r"^[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d+)?$|^(?i:[+-]?(inf|infinity|nan))$"
NOTHING = ("", "na", "n/a", "#n/a", "null", "none", "nan", "-")
FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def decode_numbers(column: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The numbers of a column, NaN where there is none, and the rows of text that is none."""
    pa = arrow()
    column, kind = _plain(column)
    if holds(kind) == "text":
        return _from_text(column)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), np.array([], np.int64)
    return _floats(column.cast(pa.float64(), safe=False)), np.array([], np.int64)


def holds(kind: Any) -> str:
    """Whether columns of an Arrow type hold numbers, text that may be numbers, or neither."""
    pa = arrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    tests = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
        pa.types.is_null,
    )  # fmt: skip
    return "numbers" if any(test(kind) for test in tests) else "neither"


def decode_flags(column: Any) -> NDArray[np.bool_]:
    """The flags of an Arrow column; raises `TypeError` if something in it is none."""
    pa = arrow()
    pc = compute()
    column, kind = _plain(column)
    if not pa.types.is_boolean(kind):
        text = pc.utf8_lower(column.cast(pa.string()))
        found = [value for value in pc.unique(text).to_pylist() if value not in FLAGS]
        if found:
            raise TypeError(f"true and false were wanted, found {found[:3]}")
        column = pc.is_in(text, pa.array([name for name, flag in FLAGS.items() if flag]))
    if column.null_count:
        raise TypeError("true and false were wanted, found nothing in some rows")
    flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return flags.astype(np.bool_)


def decode_names(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """The names in an Arrow column as places in a list; -1 where there is none."""
    pa = arrow()
    pc = compute()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not (pa.types.is_dictionary(column.type) and holds(column.type) == "text"):
        column, kind = _plain(column)
        if pa.types.is_integer(kind):
            column = column.cast(pa.string())
        elif holds(kind) != "text":
            raise TypeError(f"a column of {kind}, names wanted")
        column = pc.dictionary_encode(column)
    names = [(name or "").strip() for name in column.dictionary.to_pylist()]
    codes = column.indices.fill_null(-1).to_numpy().astype(np.int64)
    empty = [place for place, name in enumerate(names) if not name]
    if empty:
        codes[np.isin(codes, empty)] = -1
    return codes, names


def _plain(column: Any) -> tuple[Any, Any]:
    """The column as one array without a dictionary, and its type."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column, column.type


def _from_text(column: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    pa = arrow()
    pc = compute()
    text = pc.utf8_trim_whitespace(column)
    nothing = pc.is_in(pc.utf8_lower(text), pa.array(NOTHING, text.type))
    text = pc.if_else(nothing, pa.scalar(None, text.type), text)
    readable = pc.match_substring_regex(text, NUMBER).fill_null(False)
    wrong = pc.and_(pc.is_valid(text), pc.invert(readable)).to_numpy(zero_copy_only=False)
    numbers = pc.if_else(readable, text, pa.scalar(None, text.type)).cast(pa.float64())
    return _floats(numbers), np.flatnonzero(wrong)


def _floats(column: Any) -> NDArray[np.float64]:
    pa = arrow()
    filled = column.fill_null(pa.scalar(float("nan"), column.type))
    floats: NDArray[np.float64] = filled.to_numpy(zero_copy_only=False)
    return floats
