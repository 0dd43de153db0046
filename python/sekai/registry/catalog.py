"""All registered specs and namespaces, and how they are found."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator

from sekai.error import DuplicateEnvError
from sekai.registry.namespace import Namespace
from sekai.registry.naming import EnvId
from sekai.registry.plugins import plugin_namespaces
from sekai.registry.spec import EnvSpec
from sekai.registry.unknown import unknown_env

__all__ = ["Catalog"]


class Catalog:
    """All registered specs and namespaces; safe to use from several threads."""

    def __init__(self) -> None:
        self._specs: dict[str, EnvSpec] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._plugins_known = False
        # Guards the tables, and is never held while code from elsewhere runs.
        self._tables = threading.RLock()
        # Held while a loader runs. One for all namespaces: loaders may need each other.
        self._loading = threading.RLock()

    def add(self, spec: EnvSpec, *, force: bool) -> None:
        """Register `spec`."""
        with self._tables:
            loading = next(filter(_is_loading_here, self._namespaces_of(spec.id)), None)
            replaces = force or (loading is not None and loading.may_replace(spec.id))
            if spec.id in self._specs and not replaces:
                raise DuplicateEnvError(
                    f"{spec.id!r} is registered already, as {self._specs[spec.id].entry_point!r}: "
                    f"choose another id or version, or replace it with force=True"
                )
            self._specs[spec.id] = spec
            if loading is not None:
                loading.note_registered(spec.id)

    def add_namespace(self, namespace: Namespace, *, force: bool) -> None:
        """Register `namespace`; it takes the place of a plugin's that is called the same."""
        with self._tables:
            known = self._namespaces.get(namespace.name)
            if known is not None and not (force or known.is_plugin):
                raise DuplicateEnvError(
                    f"the namespace {namespace.name!r} is registered already: choose another "
                    f"name, or replace its loader with force=True"
                )
            self._namespaces[namespace.name] = namespace

    def find(self, id: str) -> EnvSpec:
        """A copy of the spec registered under `id`; its namespace is loaded first."""
        wanted = EnvId.parse(id)
        loaded = self._load_namespaces_of(wanted)
        found = self._registered(wanted)
        if found is not None:
            return copy.deepcopy(found)
        resolutions = (namespace.resolve(id) for namespace in loaded)
        resolved = next(filter(None, resolutions), None)
        if resolved is None:
            with self._tables:
                ids, names = list(self._specs), list(self._namespaces)
            raise unknown_env(wanted, ids, names)
        return resolved

    def all(self) -> list[EnvSpec]:
        """Copies of all registered specs, by namespace, name and version."""
        with self._tables:
            specs = list(self._specs.values())
        return copy.deepcopy(sorted(specs, key=lambda spec: EnvId.parse(spec.id).order))

    def namespaces(self) -> list[str]:
        """The names of all namespaces, loaded or not, those of plugins included."""
        self._find_plugins()
        with self._tables:
            own = {spec.namespace for spec in self._specs.values()}
            return sorted({*self._namespaces, *filter(None, own)})

    @contextlib.contextmanager
    def isolated(self, *, empty: bool) -> Iterator[None]:
        """Undo on leaving what was registered or loaded meanwhile."""
        with self._tables:
            before = self._specs, self._namespaces, self._plugins_known
            kept = (dict[str, EnvSpec](), dict[str, Namespace](), False) if empty else before
            self._specs = dict(kept[0])
            # Loading changes a namespace, so the ones inside are not the ones outside.
            self._namespaces = {name: copy.copy(each) for name, each in kept[1].items()}
            self._plugins_known = kept[2]
        try:
            yield
        finally:
            with self._tables:
                self._specs, self._namespaces, self._plugins_known = before

    def _registered(self, wanted: EnvId) -> EnvSpec | None:
        with self._tables:
            exact = self._specs.get(str(wanted))
            if exact is not None or wanted.version is not None:
                return exact
            parsed = map(EnvId.parse, self._specs)
            versions = [id for id in parsed if id.unversioned == wanted.unversioned]
            latest = max(versions, key=lambda id: id.order, default=None)
            return None if latest is None else self._specs[str(latest)]

    def _load_namespaces_of(self, wanted: EnvId) -> list[Namespace]:
        if wanted.namespace is not None and not self._namespaces_of(str(wanted)):
            self._find_plugins()
        while True:
            found = self._namespaces_of(str(wanted))
            waiting = [each for each in found if not (each.loaded or each.is_loading_here)]
            if not waiting:
                return found
            # Again afterwards: a plugin's module may have registered a loader of its own.
            self._load(waiting[0])

    def _load(self, namespace: Namespace) -> None:
        with self._loading:
            if not namespace.loaded:
                namespace.load()

    def _find_plugins(self) -> None:
        with self._loading:
            if self._plugins_known:
                return
            found = list(plugin_namespaces())
            with self._tables:
                for namespace in found:
                    self._namespaces.setdefault(namespace.name, namespace)
                self._plugins_known = True

    def _namespaces_of(self, id: str) -> list[Namespace]:
        with self._tables:
            names = EnvId.parse(id).namespaces
            return [self._namespaces[name] for name in names if name in self._namespaces]


def _is_loading_here(namespace: Namespace) -> bool:
    return namespace.is_loading_here
