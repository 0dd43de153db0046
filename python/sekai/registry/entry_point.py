"""Entry points: objects by import path, and import paths of objects."""

from __future__ import annotations

import importlib
import operator
import re
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeAlias

import numpy as np

EntryPoint: TypeAlias = str | Callable[..., Any]
"""A callable, or its import path `"package.module:Class"`."""

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_entry_point(entry_point: Any, name: str) -> None:
    """Raise unless `entry_point` is a callable or looks like an import path."""
    if isinstance(entry_point, str):
        if _PATH.fullmatch(entry_point) is None:
            raise ValueError(f"{name} must look like 'package.module:Class', got {entry_point!r}")
    elif not callable(entry_point):
        raise TypeError(
            f"{name} must be a callable or an import path like 'package.module:Class', "
            f"got {entry_point!r}"
        )


def load(path: str) -> Any:
    """Import the object at `path`; errors raised by its module propagate unchanged."""
    check_entry_point(path, "an import path")
    module_name, _, attributes = path.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # An ImportError inside the module is more specific.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ImportError(f"cannot import {path!r}: no module named {error.name!r}") from error
    try:
        return operator.attrgetter(attributes)(target)
    except AttributeError as error:
        raise ImportError(f"cannot import {path!r}: {error}") from error


def loaded(entry_point: EntryPoint) -> Callable[..., Any]:
    """Return the callable of an entry point, importing it if it is a path."""
    target = load(entry_point) if isinstance(entry_point, str) else entry_point
    if not callable(target):
        raise TypeError(f"{entry_point!r} must be callable, got {target!r}")
    return target


def named(entry_point: EntryPoint) -> EntryPoint:
    """Return the import path of an entry point if it has one, otherwise the callable."""
    return entry_point if isinstance(entry_point, str) else path_of(entry_point) or entry_point


def path_of(value: Any) -> str | None:
    """Return the import path under which `load` finds `value`, or None."""
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    path = f"{module}:{name}"
    if _PATH.fullmatch(path) is None:
        return None
    target: Any = sys.modules.get(str(module))
    for attribute in str(name).split("."):
        target = getattr(target, attribute, None)
    # A bound method is a new object at each lookup.
    is_same = target == value if isinstance(value, MethodType) else target is value
    return path if is_same else None
