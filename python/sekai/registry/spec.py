"""Specs: descriptions from which environments and their wrappers are made."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.core.result import equal_values
from sekai.core.wrapper import BaseWrapper
from sekai.registry.entry_point import EntryPoint, check_entry_point, loaded, named, path_of
from sekai.registry.naming import EnvId

if TYPE_CHECKING:
    from sekai.core.env import Env


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EnvSpec:
    """Description of an environment and its wrappers, from which it can be made.

    Specs compare by meaning: a class equals its import path, arrays compare by their elements. The
    values in `kwargs` are passed to the env uncopied, in new containers.
    """

    id: str
    entry_point: EntryPoint
    """Env class, function that returns an env, or the import path of either."""

    max_episode_steps: int | None = None
    """Steps until `TimeLimit` truncates; None for no limit."""

    reward_threshold: float | None = None
    """Return at which the task counts as solved."""

    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments of the entry point."""

    order_enforce: bool = True
    validate_actions: bool = True
    nondeterministic: bool = False
    """True if the same seed may lead to different episodes."""

    vector_entry_point: EntryPoint | None = None
    """Entry point of a vector env that is faster than a loop, if there is one."""

    wrappers: tuple[WrapperSpec, ...] = ()
    """Wrappers around those of the flags above, innermost first."""

    _made: tuple[WrapperSpec, ...] = dataclasses.field(default=(), repr=False)
    """Wrappers, innermost first, that making the env adds anyway; they are not recorded."""

    def __post_init__(self) -> None:
        EnvId.parse(self.id)
        check_entry_point(self.entry_point, "entry_point")
        if self.vector_entry_point is not None:
            check_entry_point(self.vector_entry_point, "vector_entry_point")
        self._set(
            max_episode_steps=_checked_limit(self.max_episode_steps),
            reward_threshold=_checked_threshold(self.reward_threshold),
            kwargs=_checked_kwargs(self.kwargs),
            wrappers=_checked_wrappers(self.wrappers),
        )

    @property
    def namespace(self) -> str | None:
        """Part of the id before the last slash, or None."""
        return EnvId.parse(self.id).namespace

    @property
    def name(self) -> str:
        """Id without namespace and version."""
        return EnvId.parse(self.id).name

    @property
    def version(self) -> int | None:
        """Number after `-v`, or None."""
        return EnvId.parse(self.id).version

    def make(self, **kwargs: Any) -> Env[Any, Any]:
        """Make the env, as `sekai.make(spec, **kwargs)` does."""
        from sekai.registry.registry import make

        return make(self, **kwargs)

    def wrapped_by(self, wrapper: BaseWrapper) -> EnvSpec:
        """Return the spec of a stack whose outermost wrapper is `wrapper`."""
        depth = sum(1 for _ in wrapper) - 2  # neither the wrapper itself nor the env counts
        layer = WrapperSpec.of(wrapper)
        if depth < len(self._made):
            if layer == self._made[depth]:
                return self
            return self._without_made_layers(depth).wrapped_by(wrapper)
        return dataclasses.replace(self, wrappers=(*self.wrappers, layer))

    def to_json(self) -> str:
        """Return the spec as strict JSON, from which `from_json` creates an equal one.

        The id stands for the entry points, and wrappers are written by name: those of
        `sekai.wrappers`, and those registered with `register_kind`.

        Raises:
            ValueError: the entry points are not those registered under the id, or an argument has a
                type that JSON files do not support.
        """
        from sekai.registry.spec_json import spec_to_json

        return spec_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> EnvSpec:
        """Create a spec from `to_json` text; its entry points are those registered under its id.

        Raises:
            UnknownEnvError: no env is registered under the id.
            ValueError: the text is not the output of `to_json`.
        """
        from sekai.registry.spec_json import spec_from_json

        return spec_from_json(text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvSpec):
            return NotImplemented
        return self.id == other.id and equal_arguments(self._key(), other._key())

    def __hash__(self) -> int:
        return hash(self.id)

    def _key(self) -> dict[str, Any]:
        public = (field.name for field in dataclasses.fields(self) if field.name[0] != "_")
        key = {name: getattr(self, name) for name in public}
        vector = self.vector_entry_point
        return {
            **key,
            "entry_point": named(self.entry_point),
            "vector_entry_point": None if vector is None else named(vector),
        }

    def _without_made_layers(self, depth: int) -> EnvSpec:
        """Return the spec of an env taken out of its wrappers from `depth` on."""
        absent = {layer.name.removeprefix("MultiAgent") for layer in self._made[depth:]}
        return dataclasses.replace(
            self,
            validate_actions=self.validate_actions and "ValidateAction" not in absent,
            order_enforce=self.order_enforce and "OrderEnforcing" not in absent,
            max_episode_steps=None if "TimeLimit" in absent else self.max_episode_steps,
            _made=self._made[:depth],
        )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _checked_limit(steps: Any) -> int | None:
    if steps is None:
        return None
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or steps < 1:
        raise ValueError(f"max_episode_steps must be None or at least 1, got {steps!r}")
    return int(steps)


def _checked_threshold(threshold: Any) -> float | None:
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise TypeError(f"reward_threshold must be a number or None, got {threshold!r}")
    return float(threshold)


def _checked_kwargs(kwargs: Any) -> dict[str, Any]:
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise TypeError(f"kwargs must be a mapping of names to values, got {kwargs!r}")
    return {name: copied(value) for name, value in kwargs.items()}


def _checked_wrappers(wrappers: Iterable[Any]) -> tuple[WrapperSpec, ...]:
    return tuple(
        wrapper if isinstance(wrapper, WrapperSpec) else WrapperSpec(wrapper)
        for wrapper in wrappers
    )


@dataclass(frozen=True, slots=True, eq=False)
class WrapperSpec:
    """Wrapper and its arguments."""

    entry_point: EntryPoint
    """Wrapper class, function of an env, or the import path of either."""

    kwargs: dict[str, Any] = field(default_factory=dict)

    args: tuple[Any, ...] = ()
    """Positional arguments of a constructor that takes `*args`."""

    def __post_init__(self) -> None:
        check_entry_point(self.entry_point, "a wrapper's entry_point")
        object.__setattr__(self, "kwargs", copied(dict(self.kwargs)))
        object.__setattr__(self, "args", copied(tuple(self.args)))

    @classmethod
    def of(cls, layer: BaseWrapper) -> WrapperSpec:
        """Return the spec of an existing wrapper, with arguments by name where possible."""
        args, kwargs = layer._arguments
        signature = inspect.signature(type(layer).__init__)
        bound = signature.bind(layer, layer.env, *args, **kwargs)
        # The first two arguments are the wrapper and the env.
        names = list(bound.arguments)[2:]
        kinds = {signature.parameters[name].kind for name in names}
        if kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            return cls(type(layer), bound.kwargs, bound.args[2:])
        positional = names[: len(bound.args) - 2]
        by_name = dict(zip(positional, bound.args[2:], strict=True))
        return cls(type(layer), {**by_name, **bound.kwargs})

    @property
    def name(self) -> str:
        """Name of the wrapper class."""
        path = named(self.entry_point)
        if isinstance(path, str):
            return path.replace(":", ".").rpartition(".")[2]
        return getattr(path, "__name__", type(path).__name__)

    def wrap(self, env: Any) -> Any:
        """Add this wrapper to an env."""
        return loaded(self.entry_point)(env, *copied(self.args), **copied(self.kwargs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WrapperSpec):
            return NotImplemented
        return equal_arguments(self._key(), other._key())

    def __hash__(self) -> int:
        return hash(self.name)

    def _key(self) -> tuple[Any, ...]:
        return named(self.entry_point), self.kwargs, self.args


def copied(value: Any) -> Any:
    """Copy containers around the same contents."""
    if type(value) is dict:
        return {copied(key): copied(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(copied(item) for item in value)
    return value


def equal_arguments(left: Any, right: Any) -> bool:
    """Return True if two arguments are equal by value: dataclasses, arrays and their copies."""
    return equal_values(_comparable(left), _comparable(right))


def _comparable(value: Any) -> Any:
    """Convert a value to parts that compare by value."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        content = array if array.dtype.hasobject else array.tobytes()
        return [type(value), array.dtype.str, array.shape, content]
    if isinstance(value, complex):
        return [complex, value.real, value.imag]
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_comparable, value)) if type(value) in (list, tuple) else value
    if callable(value):
        return path_of(value) or value
    if isinstance(value, enum.Enum):
        return value
    if hasattr(value, "to_jsonable"):
        return [type(value), value.to_jsonable()]
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value)]
        return [type(value), {name: _comparable(getattr(value, name)) for name in fields}]
    return value
