"""The reader of TOML: in the standard library from Python 3.11 on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sekai.error import MissingExtraError

__all__ = ["toml", "toml_text"]


def toml() -> Any:
    """The module that has `loads`."""
    try:
        return import_module("tomllib")
    except ImportError:
        pass
    try:
        return import_module("tomli")
    except ImportError as error:
        raise MissingExtraError.of("tomli", "cli", "Reading experiment files") from error


def toml_text(values: dict[str, Any]) -> str:
    """Plain values as the text of a TOML file."""
    try:
        writer = import_module("tomli_w")
    except ImportError as error:
        raise MissingExtraError.of("tomli-w", "train", "Writing experiment files") from error
    return str(writer.dumps(values))
