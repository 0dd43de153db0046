"""Decoder interface for venues, and strict parsing of untrusted JSON frames."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from sekai.error import FeedError
from sekai.live.events import FeedEvent

__all__ = [
    "LAST_NANOSECOND",
    "MAX_FRAME_BYTES",
    "Decoder",
    "Malformed",
    "invalid",
    "parse_count",
    "parse_number",
    "parse_price",
    "parse_size",
    "parse_symbol",
    "parse_time",
    "parse_timestamp",
    "parse_whole_time",
    "read_json",
    "shown",
]

MAX_FRAME_BYTES = 1 << 20
"""Characters or bytes of a frame; longer frames are rejected without parsing."""

MAX_DEPTH = 64
"""Nested lists and objects."""

MAX_NUMBER = 1e30
"""Larger prices and sizes are rejected: sums of them must stay finite."""

LAST_NANOSECOND = 2**63 - 1
"""Largest timestamp in 64 bits."""

SHOWN_LENGTH = 80
SYMBOL_LENGTH = 64
INTEGER_DIGITS = 20
FIRST_DATE, LAST_DATE = np.datetime64("1678-01-01", "s"), np.datetime64("2262-01-01", "s")

_decimal = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?").fullmatch
_structure = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL).finditer
_iso_time = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?)"
    r"(?:Z|\+00:00)?"
).fullmatch


@runtime_checkable
class Decoder(Protocol):
    """Decoder interface: turns the frames of a venue into events."""

    def decode(self, frame: str | bytes, receive_time: int, arrival: int) -> list[FeedEvent]:
        """Decode a frame; an empty list if it holds no market data.

        Args:
            frame: the raw frame.
            receive_time: local receive time in nanoseconds since 1970.
            arrival: receive time by `time.perf_counter_ns`.

        Raises:
            FeedError: the frame is malformed; no other exception is raised for any input.
        """

    def subscription(self, symbols: Collection[str]) -> list[str]:
        """Messages that subscribe to these symbols."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Rejected row or line of a file, with the reason."""

    detail: str


def read_json(frame: str | bytes) -> Any:
    """Parse a JSON frame in bounded time.

    Raises:
        FeedError: it is not JSON, too long, nested too deeply, has a duplicate key, or holds NaN,
            an infinity or an integer with too many digits.
    """
    if not isinstance(frame, (str, bytes)):
        raise FeedError(f"frame must be text or bytes, got {type(frame).__name__}")
    if len(frame) > MAX_FRAME_BYTES:
        raise invalid(f"a frame of at most {MAX_FRAME_BYTES} bytes", frame)
    try:
        text = frame if isinstance(frame, str) else frame.decode()
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _check_depth(text)
        return _decode(text)
    except (ValueError, RecursionError):
        error = invalid("JSON", frame)
    # Raised outside the handler: the cause would hold the whole frame.
    raise error


def invalid(expected: str, value: Any) -> FeedError:
    """Create the error for an unexpected value, of which the first characters are shown."""
    return FeedError(f"invalid frame: expected {expected}, got {shown(value)}")


def shown(value: Any) -> str:
    """Represent a value in at most 80 ASCII characters, safe for terminals and logs."""
    # Truncate first: the text of a huge value is huge. Integers are never spelled out.
    if isinstance(value, (str, bytes)):
        text = repr(value[:SHOWN_LENGTH])
    elif value is None or isinstance(value, (bool, float)):
        text = repr(value)
    else:
        text = type(value).__name__
    return text.encode("ascii", "backslashreplace").decode()[:SHOWN_LENGTH]


def parse_price(value: Any) -> float:
    """Parse a price: a finite number above 0."""
    result = float(value) if type(value) is str and _decimal(value) else parse_number(value)
    if 0.0 < result < MAX_NUMBER:
        return result
    raise invalid("a price above 0", value)


def parse_size(value: Any) -> float:
    """Parse a size: a finite number of at least 0."""
    result = float(value) if type(value) is str and _decimal(value) else parse_number(value)
    if 0.0 <= result < MAX_NUMBER:
        return result
    raise invalid("a size of at least 0", value)


def parse_number(value: Any) -> float:
    """Parse a finite number: a JSON number, or a decimal string as many venues send."""
    if isinstance(value, str) and _decimal(value):
        return float(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and -MAX_NUMBER < value < MAX_NUMBER:
        return float(value)
    raise invalid("a finite number", value)


def parse_count(value: Any) -> int:
    """Parse a count: an integer of at least 0 that fits into 64 bits."""
    if type(value) is int and 0 <= value <= LAST_NANOSECOND:
        return value
    raise invalid("a count of at least 0", value)


def parse_whole_time(value: Any, unit: int) -> int:
    """Parse an integer time in units of `unit` nanoseconds since 1970 into nanoseconds."""
    if type(value) is int and 0 < value <= LAST_NANOSECOND // unit:
        return value * unit
    raise invalid("a time after 1970 that fits into 64 bits of nanoseconds", value)


def parse_time(value: Any, unit: int) -> int:
    """Parse a time in units of `unit` nanoseconds, with decimals or as a string as well."""
    if type(value) is int:
        return parse_whole_time(value, unit)
    is_text = type(value) is str and _decimal(value)
    if is_text or (type(value) is float and abs(value) < MAX_NUMBER):
        return parse_whole_time(int(Fraction(value) * unit), 1)
    raise invalid("a time after 1970", value)


def parse_timestamp(value: Any) -> int:
    """Parse nanoseconds since 1970 or an ISO 8601 time in UTC into nanoseconds.

    Raises:
        FeedError: it is neither, or does not fit into 64 bits.
    """
    if type(value) is int and 0 < value < 2**63:
        return value
    if isinstance(value, str) and (match := _iso_time(value)):
        try:
            time = np.datetime64(match[1])
        except ValueError:
            raise invalid("a valid date and time", value) from None
        if FIRST_DATE < time < LAST_DATE:
            return int(time.astype("datetime64[ns]").astype(np.int64))
    raise invalid("a time in nanoseconds or such as 2020-01-31T16:00:00 in UTC", value)


def parse_symbol(value: Any) -> str:
    """Parse a symbol: printable text of at most 64 characters."""
    if type(value) is str and 0 < len(value) <= SYMBOL_LENGTH and value.isprintable():
        return value
    raise invalid("a symbol", value)


def _check_depth(text: str) -> None:
    depth = 0
    for match in _structure(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # Parsers disagree on which of the two counts: one may validate what another ignores.
        raise ValueError("duplicate key")
    return result


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS:
        raise ValueError("integer with too many digits")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_constant=_no_constant
).decode
