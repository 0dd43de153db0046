"""The names environments are registered under: `[namespace/]Name[-vN]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["PATTERN", "EnvId", "check_namespace", "nearest"]

PATTERN = "[namespace/]Name[-vN]"

_SEGMENT = r"\w[\w.\-]*"
_NAMESPACE = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_ID = re.compile(
    rf"(?:(?P<namespace>{_NAMESPACE.pattern})/)?(?P<name>{_SEGMENT}?)(?:-v(?P<version>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class EnvId:
    """An id taken apart."""

    namespace: str | None
    """What comes before the last slash: a plugin, or None for envs that belong to none."""

    name: str
    version: int | None

    @classmethod
    def parse(cls, id: str) -> EnvId:
        """Take `id` apart, or raise a `ValueError` that says what an id looks like."""
        match = _ID.fullmatch(id) if isinstance(id, str) else None
        if match is None:
            raise ValueError(
                f"an env id looks like {PATTERN} (letters, digits, '_', '.', '-'), was {id!r}"
            )
        version = match["version"]
        # One spelling a version: otherwise v1 and v01 would be two envs that look like one.
        if version is not None and version != str(int(version)):
            raise ValueError(f"the version of {id!r} must be written v{int(version)}")
        return cls(match["namespace"], match["name"], None if version is None else int(version))

    @property
    def unversioned(self) -> str:
        """The id without its version."""
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"

    @property
    def order(self) -> tuple[str, str, int]:
        """What ids are sorted by: v2 comes before v10."""
        return self.namespace or "", self.name, -1 if self.version is None else self.version

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that may know this env: its own first, then the ones around it."""
        parts = self.namespace.split("/") if self.namespace else []
        return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]

    def __str__(self) -> str:
        return self.unversioned if self.version is None else f"{self.unversioned}-v{self.version}"


def check_namespace(name: str) -> str:
    """Return `name` if a namespace can be called so, or raise a `ValueError`."""
    if not isinstance(name, str) or _NAMESPACE.fullmatch(name) is None:
        raise ValueError(
            f"a namespace is one or more words of letters, digits, '_', '.' and '-', with '/' "
            f"between them, was {name!r}"
        )
    return name


def nearest(wanted: str, known: Iterable[str]) -> list[str]:
    """Up to three of the `known` names that `wanted` may have been meant to be."""
    import difflib

    by_lower_case: dict[str, list[str]] = {}
    for name in sorted(known):
        by_lower_case.setdefault(name.lower(), []).append(name)
    close = difflib.get_close_matches(wanted[:100].lower(), by_lower_case, n=3, cutoff=0.6)
    return [name for lowered in close for name in by_lower_case[lowered]][:3]
