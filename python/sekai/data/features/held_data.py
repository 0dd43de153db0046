"""Finds the data that a function holds of its own, which no change of its input can reach."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

import numpy as np

__all__ = ["held_data"]

DEPTH = 4


def held_data(function: Any, rows: int) -> list[str]:
    """What a function closes over, or an object keeps, that is about as long as the data."""
    least = max(8, rows // 2)
    return sorted({_kind(part) for part in _parts(function, DEPTH) if _is_long(part, least)})


def _is_long(part: Any, least: int) -> bool:
    if isinstance(part, np.ndarray):
        return part.ndim > 0 and max(part.shape) >= least
    if isinstance(part, (Mapping, list, tuple)):
        return len(part) >= least
    # Frames and panels: things with rows that are no text.
    is_table = hasattr(part, "columns") or hasattr(part, "times") or hasattr(part, "iloc")
    return is_table and hasattr(part, "__len__") and len(part) >= least


def _parts(holder: Any, depth: int) -> Iterator[Any]:
    """What is held, and what that holds; what can be perturbed itself is left out."""
    for part in _direct(holder):
        if isinstance(part, type) or _is_perturbable(part):
            continue
        yield part
        if depth > 1:
            yield from _parts(part, depth - 1)


def _is_perturbable(part: Any) -> bool:
    from sekai.data.market_data import MarketData

    # A panel that is held is not the panel that is given, and stays as it is.
    return hasattr(part, "perturb_after") and not isinstance(part, MarketData)


def _direct(holder: Any) -> Iterator[Any]:
    if isinstance(holder, functools.partial):
        yield from (holder.func, *holder.args, *holder.keywords.values())
    elif isinstance(holder, MethodType):
        yield from (holder.__self__, holder.__func__)
    elif isinstance(holder, FunctionType):
        yield from holder.__defaults__ or ()
        yield from (holder.__kwdefaults__ or {}).values()
        yield from _cells(holder)
        names = holder.__code__.co_names
        yield from (holder.__globals__[name] for name in names if name in holder.__globals__)
    elif type(holder).__module__ not in ("builtins", "numpy") and hasattr(holder, "__dict__"):
        yield from vars(holder).values() if not _is_module(holder) else ()


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        # A name that is bound later, such as that of a function inside itself, has no content.
        with suppress(ValueError):
            yield cell.cell_contents


def _is_module(holder: Any) -> bool:
    return type(holder).__name__ == "module"


def _kind(part: Any) -> str:
    return type(part).__name__
