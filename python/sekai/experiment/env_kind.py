"""Facts about an env that are known without running it: documentation, config and options."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from sekai.config.convert import type_hints
from sekai.registry import EnvSpec
from sekai.registry.entry_point import loaded
from sekai.spaces import Dict, Space, Tuple

MAKE_OPTIONS = ("max_episode_steps",)
"""Options of `make` that every env takes."""


class EnvKind:
    """Class or function behind an env spec, with its documentation and its options.

    Args:
        spec: the env spec; its entry point is imported.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.entry = loaded(spec.entry_point)
        self.documentation = inspect.getdoc(self.entry) or ""

    @property
    def is_native(self) -> bool:
        """True if the env has a native batch."""
        return self.spec.vector_entry_point is not None

    @property
    def summary(self) -> str:
        """First line of the documentation."""
        return self.documentation.partition("\n")[0].rstrip(".")

    @property
    def config(self) -> type | None:
        """Dataclass of the options, if there is one."""
        hint = self._hints.get("config")
        configs = [
            kind for kind in typing.get_args(hint) or (hint,) if dataclasses.is_dataclass(kind)
        ]
        return typing.cast(type, configs[0]) if configs else None

    @property
    def options(self) -> dict[str, Any] | None:
        """Types of the options by name; None if the env takes any option."""
        parameters = inspect.signature(self.entry).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        config = self.config
        if config is None and takes_any:
            return None
        names = [
            parameter.name
            for parameter in parameters
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        options = {name: self._hints.get(name, Any) for name in names if name != "config"}
        if config is not None:
            hints = type_hints(config)
            names = [field.name for field in dataclasses.fields(config)]
            options |= {name: hints.get(name, Any) for name in names}
        return options | dict.fromkeys(MAKE_OPTIONS, int)

    @property
    def takes_data(self) -> bool:
        """True if the env takes market data."""
        return self.options is not None and "data" in self.options

    @property
    def takes_features(self) -> bool:
        """True if the env shows features of market data, which it simulates by default."""
        return self.options is not None and "features" in self.options

    @property
    def _hints(self) -> dict[str, Any]:
        init = getattr(self.entry, "__init__", None) if isinstance(self.entry, type) else None
        return type_hints(init or self.entry)


def short_space(space: Space[Any] | None) -> str:
    """Short description of a space: its class and its size."""
    if space is None:
        return "by agent"
    kind = type(space).__name__
    if isinstance(space, Dict):
        return f"{kind}({', '.join(space.spaces)})"
    if isinstance(space, Tuple):
        return f"{kind}({', '.join(map(short_space, space.spaces))})"
    size = getattr(space, "n", None)
    if size is None:
        size = "x".join(map(str, getattr(space, "shape", ()))) or "1"
    return f"{kind}({size})"
