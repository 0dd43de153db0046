"""Catalog of registered specs and namespaces, and errors for unknown ids."""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings
from collections.abc import Collection, Iterator

from sekai.error import DuplicateEnvError, SekaiError, UnknownEnvError
from sekai.registry.namespace import Namespace, plugin_namespaces
from sekai.registry.naming import EnvId
from sekai.registry.spec import EnvSpec
from sekai.storage.names import close_matches, suggestion


class Catalog:
    """Thread-safe table of registered specs and namespaces."""

    def __init__(self) -> None:
        self._specs: dict[str, EnvSpec] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._plugins_known = False
        # Guards the tables; never held while a loader runs.
        self._tables = threading.RLock()
        # Held while a loader runs. One for all namespaces: loaders may need each other.
        self._loading = threading.RLock()

    def add(self, spec: EnvSpec, *, force: bool) -> None:
        """Register a spec."""
        with self._tables:
            owners = self._namespaces_of(spec.id)
            loading = next((owner for owner in owners if owner.is_loading_here), None)
            replaces = force or (loading is not None and loading.may_replace(spec.id))
            if spec.id in self._specs and not replaces:
                raise DuplicateEnvError(
                    f"{spec.id!r} is already registered, as {self._specs[spec.id].entry_point!r}; "
                    f"choose another id or version, or pass force=True to replace it"
                )
            self._specs[spec.id] = spec
            if loading is not None:
                loading.note_registered(spec.id)

    def add_namespace(self, namespace: Namespace, *, force: bool) -> None:
        """Register a namespace; it replaces a plugin's namespace of the same name."""
        with self._tables:
            known = self._namespaces.get(namespace.name)
            if known is not None and not (force or known.is_plugin):
                raise DuplicateEnvError(
                    f"namespace {namespace.name!r} is already registered; choose another "
                    f"name, or pass force=True to replace its loader"
                )
            self._namespaces[namespace.name] = namespace

    def find(self, id: str) -> EnvSpec:
        """Return a copy of the spec registered under `id`; loads its namespace first."""
        requested = EnvId.parse(id)
        loaded = self._load_namespaces_of(requested)
        result = self._registered(requested)
        if result is not None:
            return copy.deepcopy(result)
        resolutions = (namespace.resolve(id) for namespace in loaded)
        resolved = next(filter(None, resolutions), None)
        if resolved is None:
            elsewhere = self._resolved_elsewhere(requested)
            with self._tables:
                ids, names = [*self._specs, *elsewhere], list(self._namespaces)
            raise unknown_env(requested, ids, names)
        return resolved

    def all(self) -> list[EnvSpec]:
        """Return copies of all registered specs, by namespace, name and version."""
        with self._tables:
            specs = list(self._specs.values())
        return copy.deepcopy(sorted(specs, key=lambda spec: EnvId.parse(spec.id).order))

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces, loaded or not, including plugins."""
        self._find_plugins()
        with self._tables:
            own = {spec.namespace for spec in self._specs.values()}
            return sorted({*self._namespaces, *filter(None, own)})

    @contextlib.contextmanager
    def isolated(self, *, empty: bool) -> Iterator[None]:
        """Undo on exit whatever was registered or loaded inside."""
        with self._tables:
            before = self._specs, self._namespaces, self._plugins_known
            initial = (dict[str, EnvSpec](), dict[str, Namespace](), False) if empty else before
            self._specs = dict(initial[0])
            # Loading mutates a namespace, so copy them.
            self._namespaces = {name: copy.copy(each) for name, each in initial[1].items()}
            self._plugins_known = initial[2]
        try:
            yield
        finally:
            with self._tables:
                self._specs, self._namespaces, self._plugins_known = before

    def _registered(self, requested: EnvId) -> EnvSpec | None:
        with self._tables:
            exact = self._specs.get(str(requested))
            if exact is not None or requested.version is not None:
                return exact
            parsed = map(EnvId.parse, self._specs)
            versions = [id for id in parsed if id.unversioned == requested.unversioned]
            latest = max(versions, key=lambda id: id.order, default=None)
            return None if latest is None else self._specs[str(latest)]

    def _load_namespaces_of(self, requested: EnvId) -> list[Namespace]:
        if requested.namespace is not None and not self._namespaces_of(str(requested)):
            self._find_plugins()
        while True:
            result = self._namespaces_of(str(requested))
            waiting = [each for each in result if not (each.loaded or each.is_loading_here)]
            if not waiting:
                return result
            # Look again: a plugin's module may have registered another loader.
            self._load(waiting[0])

    def _load(self, namespace: Namespace) -> None:
        with self._loading:
            if not namespace.loaded:
                namespace.load()

    def _resolved_elsewhere(self, requested: EnvId) -> list[str]:
        """Ids of the same name in namespaces with a resolver, if `requested` has no namespace."""
        with self._tables:
            others = [each for each in self._namespaces.values() if each.resolver is not None]
        ids = []
        for namespace in others if requested.namespace is None else ():
            id = f"{namespace.name}/{requested}"
            # A package that is missing or warns is no part of this error.
            with contextlib.suppress(SekaiError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ids += [] if namespace.resolve(id) is None else [id]
        return ids

    def _find_plugins(self) -> None:
        with self._loading:
            if self._plugins_known:
                return
            result = list(plugin_namespaces())
            with self._tables:
                for namespace in result:
                    self._namespaces.setdefault(namespace.name, namespace)
                self._plugins_known = True

    def _namespaces_of(self, id: str) -> list[Namespace]:
        with self._tables:
            names = EnvId.parse(id).namespaces
            return [self._namespaces[name] for name in names if name in self._namespaces]


def unknown_env(
    requested: EnvId, registered: Collection[str], namespaces: Collection[str]
) -> UnknownEnvError:
    """Return the error for an id that is not registered.

    Args:
        requested: the requested id.
        registered: ids of all registered envs.
        namespaces: names of all namespaces, loaded or not.
    """
    known = [EnvId.parse(id) for id in registered]
    known_namespaces = {*namespaces, *(id.namespace for id in known if id.namespace)}
    if not known_namespaces.issuperset(requested.namespaces[-1:]):
        reason = _about_namespace(requested, known_namespaces)
    else:
        reason = _about_versions(requested, known) or _about_family(requested, known)
    advice = _advice(requested, known)
    if not advice and requested.namespace is None and known_namespaces:
        written = f"{min(known_namespaces)}/{requested}"
        advice = f"; envs of other packages need their namespace, as in {written!r}"
    return UnknownEnvError(f"unknown env id {str(requested)!r}: {reason}{advice}")


def _about_namespace(requested: EnvId, known: set[str]) -> str:
    listed = ", ".join(sorted(known)) or "none"
    return f"unknown namespace {requested.namespace!r}; expected one of: {listed}"


def _about_versions(requested: EnvId, known: list[EnvId]) -> str | None:
    siblings = sorted((id for id in known if id.unversioned == requested.unversioned), key=_order)
    if not siblings:
        return None
    return f"{requested.unversioned!r} is registered as {', '.join(map(str, siblings))}"


def _about_family(requested: EnvId, known: list[EnvId]) -> str:
    family = [id for id in known if id.namespace == requested.namespace]
    if requested.namespace is None:
        return "no env without a namespace has that name"
    if family:
        return f"namespace {requested.namespace!r} has no env of that name"
    return f"namespace {requested.namespace!r} registered no envs"


def _advice(requested: EnvId, known: list[EnvId]) -> str:
    """Suggest similar ids, and the same name in other namespaces."""
    same_name = [
        str(id) for id in known if id.name == requested.name and id.namespace != requested.namespace
    ]
    alike = close_matches(str(requested), map(str, known))
    return suggestion(list(dict.fromkeys([*alike, *sorted(same_name)]))[:3])


def _order(id: EnvId) -> tuple[str, str, int]:
    return id.order
