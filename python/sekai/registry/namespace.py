"""Namespaces: groups of environments that are loaded on demand, and those of plugins."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sekai.error import NamespaceError, SekaiError
from sekai.registry.naming import check_namespace
from sekai.registry.spec import EnvSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


Loader = Callable[[], object]
"""Function that registers the envs of a namespace; its result is ignored."""

Resolver = Callable[[str], "EnvSpec | None"]
"""Function that returns the spec of an unregistered id of a namespace, or None."""


class Namespace:
    """Loader of a namespace and its progress. Load under one lock for all namespaces."""

    def __init__(
        self, name: str, loader: Loader | None, resolver: Resolver | None, *, is_plugin: bool
    ) -> None:
        self.name = name
        self.resolver = resolver
        self.is_plugin = is_plugin
        self.loaded = loader is None
        self._loader = loader
        self._loading_thread: int | None = None
        self._registered: set[str] = set()
        self._left_by_failure: set[str] = set()

    @property
    def is_loading_here(self) -> bool:
        """True if this thread is running the loader."""
        return self._loading_thread == threading.get_ident()

    def load(self) -> None:
        """Run the loader; if it fails, raise `NamespaceError` and allow another run."""
        assert self._loader is not None
        self._left_by_failure = self._left_by_failure | self._registered
        self._registered = set()
        self._loading_thread = threading.get_ident()
        try:
            self._loader()
        except Exception as error:
            raise NamespaceError(
                f"loader of namespace {self.name!r} failed "
                f"({type(error).__name__}: {error}); it will run again at the next request"
            ) from error
        finally:
            self._loading_thread = None
        self.loaded = True

    def resolve(self, id: str) -> EnvSpec | None:
        """Return the resolver's spec of an unregistered id, or None."""
        if self.resolver is None:
            return None
        try:
            spec: Any = self.resolver(id)
        except SekaiError:
            raise
        except Exception as error:
            raise NamespaceError(
                f"resolver of namespace {self.name!r} failed on {id!r} "
                f"({type(error).__name__}: {error})"
            ) from error
        if spec is not None and not isinstance(spec, EnvSpec):
            raise NamespaceError(
                f"resolver of namespace {self.name!r} must return an EnvSpec or None for "
                f"{id!r}, returned {spec!r}"
            )
        return spec

    def note_registered(self, id: str) -> None:
        """Record that the loader registered `id`."""
        self._registered.add(id)
        self._left_by_failure.discard(id)

    def may_replace(self, id: str) -> bool:
        """Return True if the running loader may register `id` again because its last run failed.

        Registrations of a failed run are kept: modules that it imported are not executed again.
        """
        return self.is_loading_here and id in self._left_by_failure


GROUP = "sekai.envs"
"""Entry point group: each name is a namespace, each value its loader or a module."""


def plugin_namespaces() -> Iterator[Namespace]:
    """Iterate over the namespaces of installed plugins; nothing is imported yet."""
    from importlib.metadata import entry_points

    by_name: dict[str, dict[str, EntryPoint]] = {}
    for entry_point in entry_points(group=GROUP):
        by_name.setdefault(entry_point.name, {})[entry_point.value] = entry_point
    for name, announced in sorted(by_name.items()):
        try:
            check_namespace(name)
        except ValueError as error:
            # One plugin with an invalid name must not hide the others.
            message = f"plugins {sorted(announced)} ignored: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            continue
        yield Namespace(name, _loader(list(announced.values())), None, is_plugin=True)


def _loader(announced: list[EntryPoint]) -> Any:
    def load() -> None:
        for entry_point in announced:
            loaded = entry_point.load()
            # Importing a module registers its envs; a loader must be called.
            if not isinstance(loaded, ModuleType):
                loaded()

    return load
