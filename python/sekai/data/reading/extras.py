"""The optional packages that readers and writers use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sekai.error import MissingExtraError

__all__ = ["arrow", "compute", "needed"]

PURPOSE = "reading and writing market data"


def needed(module: str, purpose: str) -> Any:
    """An optional module, or the error that says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError.of(package, "data", purpose) from error


def arrow() -> Any:
    """The package pyarrow."""
    return needed("pyarrow", PURPOSE)


def compute() -> Any:
    """What pyarrow computes with."""
    return needed("pyarrow.compute", PURPOSE)
