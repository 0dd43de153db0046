"""Evaluations as JSON: strict, without anything that could run."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
import types
import typing
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.error import SekaiError
from sekai.evaluation.evaluation import Evaluation
from sekai.rendering.replacement import replacing
from sekai.storage.strict_json import parsed

__all__ = ["EvaluationFileError", "load_evaluation", "save_evaluation"]

FORMAT = "sekai evaluation 1"
UNSTORED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Numbers that JSON has no words for."""

KINDS = ("<f8", "<i8", "<M8[ns]")
"""What arrays of numbers hold; names are lists of strings."""

LARGEST = 2**27
"""Numbers that all arrays may hold together: more is an attack on memory."""

MOST_AXES = 8


class EvaluationFileError(SekaiError, ValueError):
    """A file that is not an evaluation, or not a whole one."""


def save_evaluation(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write an evaluation; a file that is there is replaced as a whole.

    Arrays are compressed bytes in base64: written out, an evaluation fills a hundred megabytes.
    """
    text = json.dumps({"format": FORMAT, "evaluation": _plain(evaluation)}, allow_nan=False)
    with replacing(path, ".json") as draft:
        draft.write_text(text, encoding="utf-8")


def load_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation.

    Raises:
        EvaluationFileError: the file holds no evaluation, or one of another format.
    """
    try:
        found = parsed(Path(path).read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"an object was wanted, found {type(found).__name__}")
        _check_sizes(found)
        if found["format"] != FORMAT:
            raise ValueError(f"the format {FORMAT!r} was wanted, found {found['format']!r}")
        return typing.cast(Evaluation, _built(Evaluation, found["evaluation"]))
    except KeyError as error:
        raise EvaluationFileError(f"{path} is not an evaluation: it has no {error}") from error
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError,
            zlib.error) as error:  # fmt: skip
        raise EvaluationFileError(f"{path} is not an evaluation: {error}") from error


def _check_sizes(value: Any) -> None:
    """Raise unless all arrays together are of a size that can be meant: bytes are compressed."""
    total = sum(_sizes(value))
    if total > LARGEST:
        raise ValueError(f"at most {LARGEST:,} numbers were wanted in arrays, found {total:,}")


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if value.keys() == {"kind", "shape", "bytes"}:
            yield _size(value["shape"])
        for part in value.values():
            yield from _sizes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _sizes(part)


def _size(shape: Any) -> int:
    is_shape = isinstance(shape, list) and len(shape) <= MOST_AXES
    if not is_shape or not all(type(size) is int and 0 <= size <= LARGEST for size in shape):
        raise ValueError(f"the shape of an array was wanted, found {shape!r:.80}")
    return math.prod(shape)


def _plain(value: Any) -> Any:
    """The same in words of JSON."""
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _packed(array: NDArray[Any]) -> Any:
    if array.dtype.kind not in "Mfi":
        return array.tolist()
    kind = {"M": "<M8[ns]", "f": "<f8", "i": "<i8"}[array.dtype.kind]
    content = zlib.compress(np.ascontiguousarray(array, kind).tobytes(), 6)
    shape = list(array.shape)
    return {"kind": kind, "shape": shape, "bytes": base64.b64encode(content).decode("ascii")}


def _unpacked(value: Any) -> NDArray[Any]:
    if isinstance(value, list):
        return np.array(value, np.str_)
    kind, shape = value["kind"], value["shape"]
    if kind not in KINDS:
        raise ValueError(f"an array of one of {KINDS} was wanted, found {kind!r}")
    size = _size(shape)
    # One byte more than there should be tells that there are more.
    content = zlib.decompressobj().decompress(base64.b64decode(value["bytes"]), 8 * size + 1)
    if len(content) != 8 * size:
        raise ValueError(f"an array of {size} numbers was wanted, found other bytes")
    numbers: NDArray[Any] = np.frombuffer(content, kind)
    native: NDArray[Any] = numbers.astype(numbers.dtype.newbyteorder("=")).reshape(shape)
    return native


def _built(kind: Any, value: Any, name: str = "") -> Any:
    """What a plain value stands for, checked against the type that is wanted."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), value)
    if origin in (typing.Union, types.UnionType):
        wanted = [one for one in typing.get_args(kind) if one is not type(None)]
        return None if value is None else _built(wanted[0], value, name)
    if origin is np.ndarray:
        return _unpacked(value)
    if origin is dict:
        return {key: _built(typing.get_args(kind)[1], part, name) for key, part in value.items()}
    if origin in (list, tuple):
        return origin(_built(typing.get_args(kind)[0], part, name) for part in value)
    if kind is float:
        return float(UNSTORED.get(value, value) if isinstance(value, str) else value)
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} is to be {kind.__name__}, found {type(value).__name__}")
    return value


def _record(kind: type, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"a {kind.__name__} was wanted, found {type(value).__name__}")
    hints = typing.get_type_hints(kind)
    known = {one.name for one in dataclasses.fields(kind)}
    if set(value) - known:
        raise ValueError(f"{kind.__name__} has no {sorted(set(value) - known)}")
    return kind(**{name: _built(hints[name], part, name) for name, part in value.items()})
