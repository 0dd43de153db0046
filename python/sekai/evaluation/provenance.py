"""What made the numbers: versions, the command, the data and the agent."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sekai.evaluation.evaluation import Provenance

__all__ = ["model_of", "provenance_of"]

PACKAGES = ("sekai", "numpy", "torch")
LONGEST = 200


def provenance_of(
    command: str | None, data_digest: str, model: str, settings: Mapping[str, Any]
) -> Provenance:
    """Everything that is needed to get the same numbers again."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        version = _version(package)
        if version is not None:
            versions[package] = version
    return Provenance(
        command=shlex.join(sys.argv) if command is None else command,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=versions,
        data_digest=data_digest,
        model=model,
        settings={name: _short(value) for name, value in settings.items()},
    )


def model_of(policy: Any, name: str) -> str:
    """What identifies the agent: the digest of its file, or its name."""
    if not isinstance(policy, (str, os.PathLike)) or not Path(policy).exists():
        return name
    path = Path(policy)
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    digest = hashlib.sha256()
    for one in files:
        digest.update(one.relative_to(path.parent).as_posix().encode())
        digest.update(one.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str | None:
    # What was not used is not looked for: torch has a version only where it was imported.
    if package in sys.modules or package == "sekai":
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    return None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
