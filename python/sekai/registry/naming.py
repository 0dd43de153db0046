"""Env ids: `[namespace/]Name[-vN]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

PATTERN = "[namespace/]Name[-vN]"

_SEGMENT = r"\w[\w.\-]*"
_NAMESPACE = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_ID = re.compile(
    rf"(?:(?P<namespace>{_NAMESPACE.pattern})/)?(?P<name>{_SEGMENT}?)(?:-v(?P<version>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class EnvId:
    """Parsed env id."""

    namespace: str | None
    """Part before the last slash; None without one."""

    name: str
    version: int | None

    @classmethod
    def parse(cls, id: str) -> EnvId:
        """Parse an id, or raise `ValueError` with the expected format."""
        match = _ID.fullmatch(id) if isinstance(id, str) else None
        if match is None:
            raise ValueError(
                f"env id must look like {PATTERN} (letters, digits, '_', '.', '-'), got {id!r}"
            )
        version = match["version"]
        # One spelling per version: v1 and v01 would be two envs.
        if version is not None and version != str(int(version)):
            raise ValueError(f"the version of {id!r} must be written v{int(version)}")
        return cls(match["namespace"], match["name"], None if version is None else int(version))

    @property
    def unversioned(self) -> str:
        """Id without its version."""
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"

    @property
    def order(self) -> tuple[str, str, int]:
        """Sort key: v2 comes before v10."""
        return self.namespace or "", self.name, -1 if self.version is None else self.version

    @property
    def namespaces(self) -> list[str]:
        """Namespaces that may contain the env: its own first, then the enclosing ones."""
        parts = self.namespace.split("/") if self.namespace else []
        return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]

    def __str__(self) -> str:
        return self.unversioned if self.version is None else f"{self.unversioned}-v{self.version}"


def check_namespace(name: str) -> str:
    """Return `name` if it is a valid namespace, otherwise raise `ValueError`."""
    if not isinstance(name, str) or _NAMESPACE.fullmatch(name) is None:
        raise ValueError(
            f"namespace must be words of letters, digits, '_', '.' and '-', separated by '/', "
            f"got {name!r}"
        )
    return name
