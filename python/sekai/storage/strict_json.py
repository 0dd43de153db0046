"""Strict JSON within bounds: no duplicate keys, no NaN, no long numbers, not too many values."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["check_nodes", "parsed"]

NODES = 2**22
"""Values in one text, at most: a short text could otherwise become a large tree."""

INT_DIGITS = 320
"""Digits of a whole number, at most."""


def parsed(text: str) -> Any:
    """Parse strict JSON within bounds: no duplicate keys, no NaN, no long numbers.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(text, str):
        raise ValueError(f"expected JSON text, got {type(text).__name__}")
    check_nodes(text)
    try:
        return _decoder.decode(text)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def check_nodes(text: str) -> None:
    """Raise `ValueError` if a text has more values than a data file may."""
    # Counts those in strings too: an upper bound, in a fraction of the time that parsing takes.
    if sum(map(text.count, ",[{")) > NODES:
        raise ValueError(f"JSON has too many values; expected at most {NODES}")


def _parsed_int(digits: str) -> int:
    if len(digits) > INT_DIGITS:
        raise ValueError(f"a whole number has {len(digits)} digits; expected at most {INT_DIGITS}")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {twice!r:.80}")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"expected strict JSON, got {name}")


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_parsed_int, parse_constant=_refuse_constant
)
