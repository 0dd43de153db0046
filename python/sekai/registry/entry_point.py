"""Finds objects by import path, and the import path of objects."""

from __future__ import annotations

import importlib
import operator
import re
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["EntryPoint", "check_entry_point", "load", "loaded", "named", "path_of"]

EntryPoint: TypeAlias = str | Callable[..., Any]
"""Something to call: itself, or where to import it from, `"package.module:Class"`."""

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_entry_point(entry_point: Any, name: str) -> None:
    """Raise unless `entry_point` is callable or reads like an import path."""
    if isinstance(entry_point, str):
        if _PATH.fullmatch(entry_point) is None:
            raise ValueError(f"{name} looks like 'package.module:Class', was {entry_point!r}")
    elif not callable(entry_point):
        raise TypeError(
            f"{name} is a callable or an import path like 'package.module:Class', "
            f"was {entry_point!r}"
        )


def load(path: str) -> Any:
    """Import what `path` names; errors raised by the module itself pass through untouched."""
    check_entry_point(path, "an import path")
    module_name, _, attributes = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A module that exists and lacks something else tells its own story.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ImportError(f"cannot import {path!r}: there is no module {error.name!r}") from error
    try:
        return operator.attrgetter(attributes)(found)
    except AttributeError as error:
        raise ImportError(f"cannot import {path!r}: {error}") from error


def loaded(entry_point: EntryPoint) -> Callable[..., Any]:
    """What `entry_point` stands for, imported if it is a path."""
    found = load(entry_point) if isinstance(entry_point, str) else entry_point
    if not callable(found):
        raise TypeError(f"{entry_point!r} must be something to call, was {found!r}")
    return found


def named(entry_point: EntryPoint) -> EntryPoint:
    """The import path of `entry_point` if it has one, else itself: one form for one meaning."""
    return entry_point if isinstance(entry_point, str) else path_of(entry_point) or entry_point


def path_of(value: Any) -> str | None:
    """The path under which `load` finds `value` itself, if there is one."""
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    path = f"{module}:{name}"
    if _PATH.fullmatch(path) is None:
        return None
    found: Any = sys.modules.get(str(module))
    for attribute in str(name).split("."):
        found = getattr(found, attribute, None)
    # A bound method is made anew each time it is looked up.
    is_same = found == value if isinstance(value, MethodType) else found is value
    return path if is_same else None
