"""Optional imports: packages of an extra, or an error that names the extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sekai.error import MissingExtraError

DISTRIBUTIONS = {"PIL": "pillow", "qlib": "pyqlib"}
"""Names to install by, where they differ from the name to import by in more than dashes."""


def optional_import(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: import path, such as `pyarrow.compute`.
        extra: the extra of sekai that installs the package; "" if none does.
        purpose: what needs it; the error begins with this.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError.of(
            DISTRIBUTIONS.get(package, package.replace("_", "-")), extra, purpose
        ) from error
