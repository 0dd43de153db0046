"""Strict JSON text: parsing within bounds, and the fast codec of journal records.

Bounds: no duplicate keys, no NaN, no long numbers, not too many values. Records use the tags of
`sekai.storage.codec`, and are encoded without a look inside simple values.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.storage.arrays import (
    array_from_json,
    array_to_json,
    bytes_from_json,
    bytes_to_json,
    dict_from_pairs,
    float_from_json,
    float_to_json,
    number_dtype,
    number_dtype_name,
    scalar_of,
)

NODES = 2**22
"""Maximum values in a text: a short text could otherwise become a large tree."""

INT_DIGITS = 320
"""Maximum digits of a whole number."""


def parse_json(text: str) -> Any:
    """Parse strict JSON within bounds: no duplicate keys, no NaN, no long numbers.

    Raises:
        ValueError: the text is malformed or exceeds a bound.
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
    # Counts those in strings too: an upper bound, in a fraction of the time of parsing.
    if sum(map(text.count, ",[{")) > NODES:
        raise ValueError(f"JSON has too many values; expected at most {NODES}")


def encode_record(fields: Mapping[str, Any]) -> str:
    """Encode a flat record as JSON, fast and bit for bit.

    Fields hold numbers, text, lists, dicts, bytes and arrays of numbers. Tuples become lists, and
    NumPy scalars of at most 64 bits become Python numbers.

    Raises:
        ValueError: a field holds something else.
    """
    try:
        if _has_tag(fields) or _any_has_tag(fields.values()):
            return _encode(_tagged(fields))
        try:
            return _encode(fields)
        except ValueError:
            # A number that is not finite; any other fault is raised again.
            return _encode(_tagged(fields))
    except RecursionError as error:
        raise ValueError("record fields are nested too deeply") from error


def decode_record(text: str) -> Any:
    """Decode what `encode_record` encoded, or a JSON text that contains it.

    Raises:
        ValueError: the text is malformed.
    """
    try:
        return _record_decoder.decode(text)
    except (RecursionError, TypeError, KeyError, struct.error, OverflowError) as error:
        raise ValueError(f"malformed record: {error}") from error


def _parsed_int(digits: str) -> int:
    if len(digits) > INT_DIGITS:
        raise ValueError(f"a whole number has {len(digits)} digits; expected at most {INT_DIGITS}")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {duplicate!r:.80}")
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"expected strict JSON, got {name}")


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_parsed_int, parse_constant=_refuse_constant
)


_UNTAGGED_TYPES = frozenset({str, int, float, bool, type(None), np.ndarray})
"""Types of record fields that are encoded without a look inside."""


def _any_has_tag(values: Any) -> bool:
    return not _UNTAGGED_TYPES.issuperset(map(type, values)) and any(map(_contains_tag, values))


def _contains_tag(value: Any) -> bool:
    """Return True if a mapping in `value` has keys that would be read as a tag."""
    if type(value) in _UNTAGGED_TYPES:
        return False
    # Before mappings, for which the check takes far longer.
    if isinstance(value, (list, tuple)):
        return _any_has_tag(value)
    return isinstance(value, (dict, Mapping)) and (_has_tag(value) or _any_has_tag(value.values()))


def _has_tag(mapping: Mapping[Any, Any]) -> bool:
    try:
        return "$" in "".join(mapping)
    except TypeError:
        return True


def _tagged(value: Any) -> Any:
    """Copy of a record value in which every value is one that JSON can express."""
    if isinstance(value, float) and not math.isfinite(value):
        return float_to_json(value)
    if isinstance(value, (dict, Mapping)):
        if _has_tag(value):
            return {"$dict": [[_record_key(key), _tagged(item)] for key, item in value.items()]}
        return {key: _tagged(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tagged(item) for item in value]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return _tagged(value.item()) if value.dtype.itemsize <= 8 else _record_value(value)
    return value


def _record_key(key: Any) -> Any:
    if key is not None and not isinstance(key, (str, int, float)):
        raise ValueError(f"keys in a record must be text or numbers, got {key!r:.80}")
    return _tagged(key)


def _record_value(value: Any) -> Any:
    """Encode what `json` does not know."""
    if isinstance(value, np.ndarray):
        return {"$array": array_to_json(value, number_dtype_name(value.dtype))}
    if isinstance(value, np.generic):
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return value.item()
        return {"$scalar": array_to_json(np.asarray(value), number_dtype_name(value.dtype))}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": bytes_to_json(bytes(value))}
    if isinstance(value, (dict, Mapping)):
        return dict(value)
    raise ValueError(
        f"a record cannot hold a value of type {type(value).__name__}; expected numbers, text, "
        f"lists, dicts or arrays of numbers"
    )


def _record_array(content: Any) -> NDArray[Any]:
    dtype, shape, text = content
    return array_from_json(number_dtype(dtype), shape, text)


def _untagged(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    ((tag, content),) = value.items()
    if tag[:1] != "$":
        return value
    read = _RECORD_READERS.get(tag)
    if read is None:
        raise ValueError(f"unknown tag {tag!r:.40}; expected one of {sorted(_RECORD_READERS)}")
    return read(content)


_RECORD_READERS: dict[str, Callable[[Any], Any]] = {
    "$array": _record_array,
    "$scalar": lambda content: scalar_of(_record_array(content)),
    "$float": float_from_json,
    "$bytes": bytes_from_json,
    "$dict": dict_from_pairs,
}
_encode = json.JSONEncoder(
    # Circular references are found as too deep nesting, at no cost where there are none.
    check_circular=False,
    allow_nan=False,
    separators=(",", ":"),
    default=_record_value,
).encode
_record_decoder = json.JSONDecoder(object_hook=_untagged, parse_constant=_refuse_constant)
