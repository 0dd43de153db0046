"""A family of environments that is loaded when one of them is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sekai.error import NamespaceError, SekaiError
from sekai.registry.spec import EnvSpec

__all__ = ["Loader", "Namespace", "Resolver"]

Loader = Callable[[], object]
"""Registers the envs of a namespace; what it returns is not looked at."""

Resolver = Callable[[str], "EnvSpec | None"]
"""Finds the spec of an id that is in a namespace and not registered, if there is one."""


class Namespace:
    """What loads a namespace, and how far it has come. Load under one lock for all of them."""

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
        """Whether this very thread is inside the loader."""
        return self._loading_thread == threading.get_ident()

    def load(self) -> None:
        """Run the loader; one that fails raises `NamespaceError` and may be run again."""
        assert self._loader is not None
        self._left_by_failure = self._left_by_failure | self._registered
        self._registered = set()
        self._loading_thread = threading.get_ident()
        try:
            self._loader()
        except Exception as error:
            raise NamespaceError(
                f"the loader of namespace {self.name!r} failed "
                f"({type(error).__name__}: {error}); it runs again the next time it is needed"
            ) from error
        finally:
            self._loading_thread = None
        self.loaded = True

    def resolve(self, id: str) -> EnvSpec | None:
        """What the resolver makes of an id that is not registered."""
        if self.resolver is None:
            return None
        try:
            found: Any = self.resolver(id)
        except SekaiError:
            raise
        except Exception as error:
            raise NamespaceError(
                f"the resolver of namespace {self.name!r} failed on {id!r} "
                f"({type(error).__name__}: {error})"
            ) from error
        if found is not None and not isinstance(found, EnvSpec):
            raise NamespaceError(
                f"the resolver of namespace {self.name!r} must return an EnvSpec or None for "
                f"{id!r}, returned {found!r}"
            )
        return found

    def note_registered(self, id: str) -> None:
        """Remember that the loader registered `id`."""
        self._registered.add(id)
        self._left_by_failure.discard(id)

    def may_replace(self, id: str) -> bool:
        """Whether the running loader registers `id` again because its last run failed.

        What a failed run registered is kept: modules it imported are not executed again.
        """
        return self.is_loading_here and id in self._left_by_failure
