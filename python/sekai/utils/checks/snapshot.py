"""Copies of results that nothing can change afterwards, and changes made to results on purpose."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

__all__ = ["MARK", "fields_of", "scribble", "snapshot"]

MARK = "written by check_env"
"""What `scribble` leaves in dicts and lists."""


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a result by name, as they are."""
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}


def snapshot(value: Any) -> Any:
    """A deep copy; what refuses to be copied stands for itself."""
    if isinstance(value, Mapping):
        return {key: snapshot(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(snapshot, value))
    try:
        return copy.deepcopy(value)
    except Exception:
        # Infos may carry locks, modules or handles: they are no part of what is compared.
        return value


def scribble(value: Any) -> None:
    """Write over everything in `value` that can be written to, as a careless caller might."""
    if isinstance(value, MutableMapping):
        for part in value.values():
            scribble(part)
        value.clear()
        value[MARK] = True
    elif isinstance(value, (list, tuple)):
        for part in value:
            scribble(part)
        if isinstance(value, list):
            value[:] = [MARK]
    elif hasattr(value, "__array__") and not isinstance(value, np.generic):
        _scribble_array(np.asarray(value))


def _scribble_array(array: np.ndarray[Any, Any]) -> None:
    if not array.flags.writeable:
        return
    if array.dtype.kind == "b":
        np.logical_not(array, out=array)
    elif array.dtype.kind in "iu":
        np.bitwise_xor(array, 1, out=array)
    elif array.dtype.kind in "fc":
        array[...] = np.where(np.isfinite(array) & (array != 0), -array / 2, 1)
