"""Reads what strangers send: JSON that may be broken, huge, deep or a lie."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any, NoReturn

from sekai.error import FeedError

__all__ = [
    "LARGEST_FRAME", "LATEST", "bad_frame", "count", "instant", "moment", "number", "price",
    "read_json", "shown", "size", "symbol",
]  # fmt: skip

LARGEST_FRAME = 1 << 20
"""Characters or bytes of a frame; a longer one is refused unread."""

DEEPEST = 64
"""Lists and objects inside each other."""

LARGEST_NUMBER = 1e30
"""Prices and sizes above are refused: sums of them must stay finite."""

LATEST = 2**63 - 1
"""The last nanosecond that 64 bits have room for."""

SHOWN = 80
SYMBOL_LENGTH = 64
INTEGER_DIGITS = 20

_decimal = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?").fullmatch
_structure = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL).finditer


def read_json(frame: str | bytes) -> Any:
    """What a frame says, in bounded time.

    Raises:
        FeedError: it is not JSON, too long, too deep, names a key twice, or holds NaN, an
            infinity or an integer that no field can have.
    """
    if not isinstance(frame, (str, bytes)):
        raise FeedError(f"a frame of text or bytes was wanted, found {type(frame).__name__}")
    if len(frame) > LARGEST_FRAME:
        raise bad_frame(f"a frame of at most {LARGEST_FRAME} bytes", frame)
    try:
        text = frame if isinstance(frame, str) else frame.decode()
        if text.count("[") + text.count("{") > DEEPEST:
            _check_depth(text)
        return _decode(text)
    except (ValueError, RecursionError):
        error = bad_frame("JSON", frame)
    # Outside of the handler: the cause would hold the whole frame.
    raise error


def bad_frame(wanted: str, found: Any) -> FeedError:
    """The error that says what was wanted, and the beginning of what was found."""
    return FeedError(f"{wanted} was wanted, found {shown(found)}")


def shown(found: Any) -> str:
    """At most 80 characters of it, none of which can do anything to a terminal or a log."""
    # Cut first: the text of a huge value is huge. Numbers of any length are never spelled out.
    if isinstance(found, (str, bytes)):
        text = repr(found[:SHOWN])
    elif found is None or isinstance(found, (bool, float)):
        text = repr(found)
    else:
        text = type(found).__name__
    return text.encode("ascii", "backslashreplace").decode()[:SHOWN]


def price(found: Any) -> float:
    """A price: a finite number above 0."""
    value = float(found) if type(found) is str and _decimal(found) else number(found)
    if 0.0 < value < LARGEST_NUMBER:
        return value
    raise bad_frame("a price above 0", found)


def size(found: Any) -> float:
    """A size: a finite number of at least 0."""
    value = float(found) if type(found) is str and _decimal(found) else number(found)
    if 0.0 <= value < LARGEST_NUMBER:
        return value
    raise bad_frame("a size of at least 0", found)


def number(found: Any) -> float:
    """A number that JSON wrote as one, or in quotes as venues do that fear for decimals."""
    if isinstance(found, str) and _decimal(found):
        return float(found)
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if is_number and -LARGEST_NUMBER < found < LARGEST_NUMBER:
        return float(found)
    raise bad_frame("a finite number", found)


def count(found: Any) -> int:
    """A count of at least 0 that fits into 64 bits."""
    if type(found) is int and 0 <= found <= LATEST:
        return found
    raise bad_frame("a count of at least 0", found)


def instant(found: Any, unit: int) -> int:
    """Nanoseconds since 1970, of a count of units of so many nanoseconds."""
    if type(found) is int and 0 < found <= LATEST // unit:
        return found * unit
    raise bad_frame("a time after 1970 that fits into 64 bits of nanoseconds", found)


def moment(found: Any, unit: int) -> int:
    """As `instant`, of a count that may have decimals or be written in quotes."""
    if type(found) is int:
        return instant(found, unit)
    is_text = type(found) is str and _decimal(found)
    if is_text or (type(found) is float and abs(found) < LARGEST_NUMBER):
        return instant(int(Fraction(found) * unit), 1)
    raise bad_frame("a time after 1970", found)


def symbol(found: Any) -> str:
    """A name of at most 64 characters that can be printed."""
    if type(found) is str and 0 < len(found) <= SYMBOL_LENGTH and found.isprintable():
        return found
    raise bad_frame("a symbol", found)


def _check_depth(text: str) -> None:
    depth = 0
    for match in _structure(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        if depth > DEEPEST:
            raise ValueError("too deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Readers disagree on which of the two counts: what one checks another may not see.
        raise ValueError("a key twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS:
        raise ValueError("an integer that no field can have")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_constant=_no_constant
).decode
