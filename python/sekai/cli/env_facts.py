"""What is known of an env without playing it."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from sekai.cli.field_facts import hints_of
from sekai.registry import EnvSpec
from sekai.registry.entry_point import loaded
from sekai.spaces import Dict, Space, Tuple

__all__ = ["EnvKind", "short"]

BY_MAKE = ("max_episode_steps",)
"""Options that every env can be made with."""


class EnvKind:
    """The class or function behind a spec: what it says of itself, and what it takes."""

    def __init__(self, spec: EnvSpec) -> None:
        """Import it.

        Args:
            spec: of the env.
        """
        self.spec = spec
        self.entry = loaded(spec.entry_point)
        self.about = inspect.getdoc(self.entry) or ""

    @property
    def is_native(self) -> bool:
        """Whether many of them are one batch."""
        return self.spec.vector_entry_point is not None

    @property
    def sentence(self) -> str:
        """What it is about, in one line."""
        return self.about.partition("\n")[0].rstrip(".")

    @property
    def config(self) -> type | None:
        """The dataclass whose fields are its options, if there is one."""
        hint = self._hints.get("config")
        found = [one for one in typing.get_args(hint) or (hint,) if dataclasses.is_dataclass(one)]
        return typing.cast(type, found[0]) if found else None

    @property
    def options(self) -> dict[str, Any] | None:
        """The options it takes with their types, None where it takes whatever it is given."""
        parameters = self._signature.parameters.values()
        takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
        if self.config is None and takes_all:
            return None
        plain = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        known = {name: self._hints.get(name, Any) for name in plain if name != "config"}
        if self.config is not None:
            hints = hints_of(self.config)
            known |= {one.name: hints.get(one.name, Any) for one in dataclasses.fields(self.config)}
        return known | dict.fromkeys(BY_MAKE, int)

    @property
    def takes_data(self) -> bool:
        """Whether it can be told what to trade on."""
        return self.options is not None and "data" in self.options

    @property
    def takes_features(self) -> bool:
        """Whether it shows features of a panel, which it makes up where it is given none."""
        return self.options is not None and "features" in self.options

    @property
    def _hints(self) -> dict[str, Any]:
        made_by = getattr(self.entry, "__init__", None) if isinstance(self.entry, type) else None
        return hints_of(made_by or self.entry)

    @property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.entry)


def short(space: Space[Any] | None) -> str:
    """A space in a few words: its kind, and what it is made of."""
    kind = type(space).__name__
    if space is None:
        return "by agent"
    if isinstance(space, Dict):
        return f"{kind}({', '.join(space.spaces)})"
    if isinstance(space, Tuple):
        return f"{kind}({', '.join(map(short, space.spaces))})"
    size = getattr(space, "n", None)
    if size is None:
        size = "x".join(map(str, getattr(space, "shape", ()))) or "1"
    return f"{kind}({size})"
