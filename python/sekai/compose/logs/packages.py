"""The optional packages that writers use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sekai.error import MissingExtraError

__all__ = ["needed"]


def needed(module: str, extra: str, purpose: str) -> Any:
    """An optional module, or the error that says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError.of(module.partition(".")[0], extra, purpose) from error
