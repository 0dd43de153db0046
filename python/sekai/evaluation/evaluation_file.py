"""Evaluations as JSON: strict, without anything that could run."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from pathlib import Path
from typing import Any

import numpy as np

from sekai.error import SekaiError
from sekai.evaluation.evaluation import Evaluation
from sekai.rendering.replacement import replacing

__all__ = ["EvaluationFileError", "load_evaluation", "save_evaluation"]

FORMAT = "sekai evaluation 1"
UNSTORED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Numbers that JSON has no words for."""

ARRAYS: dict[str, Any] = {
    "step": np.int64,
    "asset": np.str_,
    "times": "datetime64[ns]",
}
"""What arrays hold that do not hold numbers of float64."""


class EvaluationFileError(SekaiError, ValueError):
    """A file that is not an evaluation, or not a whole one."""


def save_evaluation(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write an evaluation; a file that is there is replaced as a whole."""
    text = json.dumps({"format": FORMAT, "evaluation": _plain(evaluation)}, allow_nan=False)
    with replacing(path, ".json") as draft:
        draft.write_text(text, encoding="utf-8")


def load_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation.

    Raises:
        EvaluationFileError: the file holds no evaluation, or one of another format.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"the format {FORMAT!r} was wanted, found {found['format']!r}")
        return typing.cast(Evaluation, _built(Evaluation, found["evaluation"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EvaluationFileError(f"{path} is not an evaluation: {error}") from error


def _plain(value: Any) -> Any:
    """The same in words of JSON."""
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.astype("datetime64[ns]").astype(str).tolist()
                      if value.dtype.kind == "M" else value.tolist())  # fmt: skip
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _built(kind: Any, value: Any, name: str = "") -> Any:
    """What a plain value stands for, checked against the type that is wanted."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), value)
    if origin in (typing.Union, types.UnionType):
        wanted = [one for one in typing.get_args(kind) if one is not type(None)]
        return None if value is None else _built(wanted[0], value, name)
    if origin is np.ndarray:
        return np.array(_numbers(value), ARRAYS.get(name, np.float64))
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


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return UNSTORED.get(value, value) if isinstance(value, str) else value
