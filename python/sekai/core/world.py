"""What every environment has, whether one agent acts in it or several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.core import state
from sekai.core.closing import Closing

if TYPE_CHECKING:
    from sekai.registry.spec import EnvSpec

__all__ = ["Layered", "Randomness", "Stateful", "World"]


class Stateful:
    """Gives `state_dict` and `load_state_dict` to whatever keeps its state in attributes."""

    state_excludes: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that are not state: connections, handles, caches."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit, as a value of its own."""
        return state.capture(self, self._excluded())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        state.restore(self, state_dict, self._excluded())

    def _excluded(self) -> frozenset[str]:
        """The excluded names of the class and of all its ancestors."""
        ancestors = type(self).__mro__
        return frozenset(
            name for ancestor in ancestors for name in vars(ancestor).get("state_excludes", ())
        )


class Randomness:
    """The random stream of an environment."""

    _rng: np.random.Generator | None = None
    _rng_seed: int | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The env's own generator, seeded from the operating system at first use."""
        if self._rng is None:
            self._set_rng(None)
            assert self._rng is not None
        return self._rng

    def _set_rng(self, seed: int | None) -> int:
        """Begin the stream of `seed`, or go on with the current one; return the seed in use."""
        if seed is None:
            if self._rng is not None and self._rng_seed is not None:
                return self._rng_seed
            seed = int.from_bytes(os.urandom(8), "little") >> 1
        self._rng_seed = _checked_seed(seed)
        self._rng = np.random.default_rng(self._rng_seed)
        return self._rng_seed


class Layered:
    """Looks attributes up through a stack of wrappers.

    Explicitly, and not by `__getattr__`: before Python 3.12 a class that has one pays for it with
    every attribute it reads, which would double the time of a step.
    """

    def __iter__(self) -> Iterator[Any]:
        """The layers of the stack, from this one inwards."""
        yield self

    def has_attr(self, name: str) -> bool:
        """Whether a layer has the attribute."""
        return any(hasattr(layer, name) for layer in self)

    def get_attr(self, name: str) -> Any:
        """The attribute, from the outermost layer that has it."""
        for layer in self:
            if hasattr(layer, name):
                return getattr(layer, name)
        raise AttributeError(f"no layer of {self!r} has an attribute {name!r}")

    def set_attr(self, name: str, value: Any) -> None:
        """Set an attribute in the outermost layer that has it, or else on the env itself."""
        layers = list(self)
        setattr(next((layer for layer in layers if hasattr(layer, name)), layers[-1]), name, value)


class World(Layered, Stateful, Randomness, Closing):
    """The common part of `Env` and `MultiAgentEnv`."""

    metadata: ClassVar[dict[str, Any]] = {}
    state_excludes: ClassVar[tuple[str, ...]] = ("spec",)
    spec: EnvSpec | None = None
    """How `sekai.make` built this env, if it did."""

    def close(self) -> None:
        """Release what the env holds: connections, files, processes."""

    def __repr__(self) -> str:
        name = f" {self.spec.id}" if self.spec is not None else ""
        return f"<{type(self).__name__}{name}>"


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, or None; was {seed!r}")
    return int(seed)
