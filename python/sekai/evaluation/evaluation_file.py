"""Evaluation files: strict JSON that never executes code."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SekaiError
from sekai.evaluation.evaluation import Evaluation
from sekai.storage.arrays import (
    array_from_json,
    array_to_json,
    float_from_json,
    float_to_json,
)
from sekai.storage.files import replace_file
from sekai.storage.strict_json import parse_json

__all__ = ["EvaluationFileError", "load_evaluation", "save_evaluation"]

FORMAT = "sekai evaluation 2"

KINDS = ("<f8", "<i8", "<M8[ns]")
"""Dtypes of stored arrays; arrays of names are lists of strings."""

LARGEST = 2**27
"""Largest total number of array elements, against decompression bombs."""

MOST_AXES = 8


class EvaluationFileError(SekaiError, ValueError):
    """A file is not an evaluation, or is incomplete."""


def save_evaluation(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write an evaluation, replacing an existing file atomically.

    Arrays are compressed and base64-encoded: as text, an evaluation takes a hundred megabytes.
    """
    text = json.dumps({"format": FORMAT, "evaluation": _plain(evaluation)}, allow_nan=False)
    with replace_file(path, ".json") as draft:
        draft.write_text(text, encoding="utf-8")


def load_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation.

    Raises:
        EvaluationFileError: the file is not an evaluation, or has another format.
    """
    try:
        document = parse_json(Path(path).read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError(f"expected a JSON object, got {type(document).__name__}")
        _check_sizes(document)
        if document["format"] != FORMAT:
            raise ValueError(
                f"unsupported format {document['format']!r}; expected {FORMAT!r}, evaluate again"
            )
        return typing.cast(Evaluation, _built(Evaluation, document["evaluation"]))
    except KeyError as error:
        raise EvaluationFileError(f"{path} is not an evaluation: missing key {error}") from error
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise EvaluationFileError(f"{path} is not an evaluation: {error}") from error


def _check_sizes(value: Any) -> None:
    """Raise ValueError if the arrays are too large to decompress safely."""
    total = sum(_sizes(value))
    if total > LARGEST:
        raise ValueError(f"arrays must have at most {LARGEST:,} elements, got {total:,}")


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if value.keys() == {"$array"}:
            yield _size(value["$array"][1])
        for part in value.values():
            yield from _sizes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _sizes(part)


def _size(shape: Any) -> int:
    is_shape = isinstance(shape, list) and len(shape) <= MOST_AXES
    if not is_shape or not all(type(size) is int and 0 <= size <= LARGEST for size in shape):
        raise ValueError(f"invalid array shape {shape!r:.80}")
    return math.prod(shape)


def _plain(value: Any) -> Any:
    """Convert a value to JSON types."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return float_to_json(value) if isinstance(value, float) else value


def _packed(array: NDArray[Any]) -> Any:
    if array.dtype.kind not in "Mfi":
        return array.tolist()
    kind = {"M": "<M8[ns]", "f": "<f8", "i": "<i8"}[array.dtype.kind]
    return {"$array": array_to_json(np.ascontiguousarray(array, kind), kind, compress=True)}


def _unpacked(value: Any) -> NDArray[Any]:
    if isinstance(value, list):
        return np.array(value, np.str_)
    kind, shape, text, packing = value["$array"]
    if kind not in KINDS:
        raise ValueError(f"unknown dtype {kind!r:.80}; expected one of {KINDS}")
    numbers: NDArray[Any] = array_from_json(np.dtype(kind), shape, text, packing)
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)


def _built(kind: Any, value: Any, name: str = "") -> Any:
    """Convert a JSON value to a type, checking it."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), value)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        return None if value is None else _built(options[0], value, name)
    if origin is np.ndarray:
        return _unpacked(value)
    if origin is dict:
        return {key: _built(typing.get_args(kind)[1], part, name) for key, part in value.items()}
    if origin in (list, tuple):
        return origin(_built(typing.get_args(kind)[0], part, name) for part in value)
    if kind is float:
        return float_from_json(value["$float"]) if isinstance(value, dict) else float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} must be {kind.__name__}, got {type(value).__name__}")
    return value


def _record(kind: type, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"expected a {kind.__name__} object, got {type(value).__name__}")
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    if set(value) - known:
        raise ValueError(f"unknown keys {sorted(set(value) - known)} of {kind.__name__}")
    return kind(**{name: _built(hints[name], part, name) for name, part in value.items()})
