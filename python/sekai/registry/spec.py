"""What is known about an environment before it is made."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sekai.core.layer import Layer
from sekai.registry.containers import copied, equal_arguments
from sekai.registry.entry_point import EntryPoint, check_entry_point, named
from sekai.registry.naming import EnvId
from sekai.registry.wrapper_spec import WrapperSpec

if TYPE_CHECKING:
    from sekai.core.env import Env

__all__ = ["EnvSpec", "WrapperSpec"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EnvSpec:
    """How to make an environment, its wrappers included.

    Specs compare by meaning: a class equals its import path, arrays compare by their elements.
    What `kwargs` holds is handed to the env as it is, in new containers.
    """

    id: str
    entry_point: EntryPoint
    """The env class, or a function that returns an env, or where to import it from."""

    max_episode_steps: int | None = None
    """Steps until `TimeLimit` truncates; None for no limit."""

    reward_threshold: float | None = None
    """The return at which the task counts as solved."""

    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the entry point is called with."""

    order_enforce: bool = True
    validate_actions: bool = True
    nondeterministic: bool = False
    """Whether the same seed may lead to different episodes."""

    vector_entry_point: EntryPoint | None = None
    """What makes many of these envs at once, if there is something faster than a loop."""

    wrappers: tuple[WrapperSpec, ...] = ()
    """Layers around what the flags above ask for, innermost first."""

    _made: tuple[WrapperSpec, ...] = dataclasses.field(default=(), repr=False)
    """The layers, innermost first, that making the env gives already, so they are not recorded."""

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
        """The part of the id before the slash, if there is one."""
        return EnvId.parse(self.id).namespace

    @property
    def name(self) -> str:
        """The id without namespace and version."""
        return EnvId.parse(self.id).name

    @property
    def version(self) -> int | None:
        """The number after `-v`, if there is one."""
        return EnvId.parse(self.id).version

    def make(self, **kwargs: Any) -> Env[Any, Any]:
        """Make the env, as `sekai.make(spec, **kwargs)` does."""
        from sekai.registry.registry import make

        return make(self, **kwargs)

    def wrapped_by(self, wrapper: Layer) -> EnvSpec:
        """The spec of the stack that `wrapper` is the outermost layer of."""
        depth = sum(1 for _ in wrapper) - 2  # neither the wrapper itself nor the env counts
        layer = WrapperSpec.of(wrapper)
        if depth < len(self._made):
            if layer == self._made[depth]:
                return self
            return self._without_made_layers(depth).wrapped_by(wrapper)
        return dataclasses.replace(self, wrappers=(*self.wrappers, layer))

    def to_json(self) -> str:
        """The spec as strict JSON, from which `from_json` reads an equal one.

        The id stands for the entry points, and wrappers are written by name: those of
        `sekai.wrappers`, and those registered with `register_kind`.

        Raises:
            ValueError: the entry points are not those registered under the id, or an argument is
                of a type that a data file cannot hold.
        """
        from sekai.registry.spec_json import spec_to_json

        return spec_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> EnvSpec:
        """The spec that `to_json` wrote; its entry points are those registered under its id.

        Raises:
            UnknownEnvError: no env is registered under the id.
            ValueError: the text is not what `to_json` writes.
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
        """The spec of an env that was taken out of the layers from `depth` on."""
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
        raise ValueError(f"max_episode_steps must be at least 1 step, or None; was {steps!r}")
    return int(steps)


def _checked_threshold(threshold: Any) -> float | None:
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise TypeError(f"reward_threshold must be a number, or None; was {threshold!r}")
    return float(threshold)


def _checked_kwargs(kwargs: Any) -> dict[str, Any]:
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise TypeError(f"kwargs must map names to values, was {kwargs!r}")
    return {name: copied(value) for name, value in kwargs.items()}


def _checked_wrappers(wrappers: Iterable[Any]) -> tuple[WrapperSpec, ...]:
    return tuple(
        wrapper if isinstance(wrapper, WrapperSpec) else WrapperSpec(wrapper)
        for wrapper in wrappers
    )
