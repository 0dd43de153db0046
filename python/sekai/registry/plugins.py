"""Namespaces that installed packages announce through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sekai.registry.namespace import Namespace
from sekai.registry.naming import check_namespace

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "plugin_namespaces"]

GROUP = "sekai.envs"
"""The entry point group: each name is a namespace, each value its loader or a module."""


def plugin_namespaces() -> Iterator[Namespace]:
    """A namespace for every name that installed packages announce; nothing is imported yet."""
    from importlib.metadata import entry_points

    by_name: dict[str, dict[str, EntryPoint]] = {}
    for entry_point in entry_points(group=GROUP):
        by_name.setdefault(entry_point.name, {})[entry_point.value] = entry_point
    for name, announced in sorted(by_name.items()):
        try:
            check_namespace(name)
        except ValueError as error:
            # One badly named plugin must not hide the others.
            message = f"the plugins {sorted(announced)} are left out: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            continue
        yield Namespace(name, _loader(list(announced.values())), None, is_plugin=True)


def _loader(announced: list[EntryPoint]) -> Any:
    def load() -> None:
        for entry_point in announced:
            loaded = entry_point.load()
            # Importing a module has registered its envs; a loader is still to be called.
            if not isinstance(loaded, ModuleType):
                loaded()

    return load
