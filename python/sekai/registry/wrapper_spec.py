"""How one wrapper of a stack is built."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from sekai.core.layer import Layer
from sekai.registry.containers import copied, equal_arguments
from sekai.registry.entry_point import EntryPoint, check_entry_point, loaded, named

__all__ = ["WrapperSpec"]


@dataclass(frozen=True, slots=True, eq=False)
class WrapperSpec:
    """A wrapper and what it is given beside the env."""

    entry_point: EntryPoint
    """The wrapper class, or any function of an env, or where to import it from."""

    kwargs: dict[str, Any] = field(default_factory=dict)

    args: tuple[Any, ...] = ()
    """What has a place and no name: arguments of a constructor that takes `*args`."""

    def __post_init__(self) -> None:
        check_entry_point(self.entry_point, "a wrapper's entry_point")
        object.__setattr__(self, "kwargs", copied(dict(self.kwargs)))
        object.__setattr__(self, "args", copied(tuple(self.args)))

    @classmethod
    def of(cls, layer: Layer) -> WrapperSpec:
        """How `layer` was built, with its arguments under their names where they have one."""
        args, kwargs = layer._arguments
        signature = inspect.signature(type(layer).__init__)
        bound = signature.bind(layer, layer.env, *args, **kwargs)
        # The first two are the layer itself and the env.
        given = list(bound.arguments)[2:]
        kinds = {signature.parameters[name].kind for name in given}
        if kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            return cls(type(layer), bound.kwargs, bound.args[2:])
        names_of_places = given[: len(bound.args) - 2]
        by_name = dict(zip(names_of_places, bound.args[2:], strict=True))
        return cls(type(layer), {**by_name, **bound.kwargs})

    @property
    def name(self) -> str:
        """The name of the wrapper class."""
        path = named(self.entry_point)
        if isinstance(path, str):
            return path.replace(":", ".").rpartition(".")[2]
        return getattr(path, "__name__", type(path).__name__)

    def wrap(self, env: Any) -> Any:
        """Put this layer around `env`."""
        return loaded(self.entry_point)(env, *copied(self.args), **copied(self.kwargs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WrapperSpec):
            return NotImplemented
        return equal_arguments(self._key(), other._key())

    def __hash__(self) -> int:
        return hash(self.name)

    def _key(self) -> tuple[Any, ...]:
        return named(self.entry_point), self.kwargs, self.args
