"""Says what to do when no environment is registered under an id."""

from __future__ import annotations

from collections.abc import Collection

from sekai.error import UnknownEnvError
from sekai.registry.naming import EnvId, nearest

__all__ = ["unknown_env"]


def unknown_env(
    wanted: EnvId, registered: Collection[str], namespaces: Collection[str]
) -> UnknownEnvError:
    """The error for an id that is not among the `registered` ones.

    Args:
        wanted: what was asked for.
        registered: the ids of all registered envs.
        namespaces: the names of all namespaces, loaded or not.
    """
    known = [EnvId.parse(id) for id in registered]
    known_namespaces = {*namespaces, *(id.namespace for id in known if id.namespace)}
    if not known_namespaces.issuperset(wanted.namespaces[-1:]):
        reason = _about_namespace(wanted, known_namespaces)
    else:
        reason = _about_versions(wanted, known) or _about_family(wanted, known)
    return UnknownEnvError(
        f"no env is registered as {str(wanted)!r}: {reason}{_advice(wanted, known)}"
    )


def _about_namespace(wanted: EnvId, known: set[str]) -> str:
    listed = ", ".join(sorted(known)) or "none"
    return f"there is no namespace {wanted.namespace!r} (known: {listed})"


def _about_versions(wanted: EnvId, known: list[EnvId]) -> str | None:
    siblings = sorted((id for id in known if id.unversioned == wanted.unversioned), key=_order)
    if not siblings:
        return None
    return f"{wanted.unversioned!r} is registered as {', '.join(map(str, siblings))}"


def _about_family(wanted: EnvId, known: list[EnvId]) -> str:
    family = [id for id in known if id.namespace == wanted.namespace]
    if wanted.namespace is None:
        return "no env without a namespace has that name"
    if family:
        return f"the namespace {wanted.namespace!r} was loaded and has no such env"
    return f"the namespace {wanted.namespace!r} was loaded and registered no env"


def _advice(wanted: EnvId, known: list[EnvId]) -> str:
    """Names that look alike, and the same name in other namespaces."""
    same_name = [
        str(id) for id in known if id.name == wanted.name and id.namespace != wanted.namespace
    ]
    alike = nearest(str(wanted), map(str, known))
    found = list(dict.fromkeys([*alike, *sorted(same_name)]))[:3]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def _order(id: EnvId) -> tuple[str, str, int]:
    return id.order
