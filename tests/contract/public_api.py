"""Public API as text: every public name with its signature.

`python tests/contract/public_api.py` rewrites `public_api.txt` after a deliberate change.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FILE = Path(__file__).parent / "public_api.txt"

MODULES = (
    "sekai",
    "sekai.backend",
    "sekai.compat",
    "sekai.compose",
    "sekai.core",
    "sekai.core.env",
    "sekai.core.multi_agent",
    "sekai.core.result",
    "sekai.core.wrapper",
    "sekai.data",
    "sekai.data.indicators",
    "sekai.envs",
    "sekai.error",
    "sekai.evaluation",
    "sekai.evaluation.baselines",
    "sekai.evaluation.metrics",
    "sekai.evaluation.statistics",
    "sekai.live",
    "sekai.live.feeds",
    "sekai.market",
    "sekai.policy",
    "sekai.registry",
    "sekai.rendering",
    "sekai.spaces",
    "sekai.spaces.utils",
    "sekai.stats",
    "sekai.stats.tracker",
    "sekai.training",
    "sekai.utils.checker",
    "sekai.vector",
    "sekai.wrappers",
    "quant_gym_rs",
)
"""Modules whose names are public."""


def public_api() -> str:
    """All public names, a line each; a name that several modules export is spelled out once."""
    seen: set[int] = set()
    return "".join(f"{line}\n" for name in MODULES for line in _module(name, seen))


def _module(name: str, seen: set[int]) -> Iterator[str]:
    module = importlib.import_module(name)
    for attribute in sorted(_names(module)):
        value = getattr(module, attribute)
        path = f"{name}.{attribute}"
        if isinstance(value, ModuleType) or (callable(value) and id(value) in seen):
            yield path
            continue
        seen.add(id(value))
        yield from _entry(path, value)


def _names(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
    ]


def _entry(path: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{path}{_signature(value)}" if callable(value) else f"{path}: {type(value).__name__}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"{path}{'' if issubclass(value, enum.Enum) else _signature(value)} [{bases}]"
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    names = {name for name in vars(value) if name[0] != "_"} | {field.name for field in fields}
    for name in sorted(names):
        member = vars(value).get(name)
        member = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        is_method = inspect.isfunction(member) or inspect.ismethoddescriptor(member)
        yield f"    {name}{_signature(member) if is_method else ''}"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    FILE.write_text(public_api(), encoding="utf-8")
