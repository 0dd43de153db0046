"""Base class of all environments: state dict, random generator, attribute lookup, `close`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.core import state

if TYPE_CHECKING:
    from typing_extensions import Self

    from sekai.registry.spec import EnvSpec


class Closeable:
    """Context manager mixin: leaving the `with` block calls `close`."""

    def close(self) -> None:
        """Release resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Stateful:
    """Mixin that saves and restores instance attributes with `state_dict`."""

    state_excludes: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that are not part of the state: connections, handles, caches."""

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot from which the object continues bit for bit."""
        return state.capture(self, self._excluded())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a snapshot; raise `StateError` and change nothing if it does not fit."""
        state.restore(self, state_dict, self._excluded())

    def _excluded(self) -> frozenset[str]:
        """Return the excluded names of the class and all its bases."""
        ancestors = type(self).__mro__
        return frozenset(
            name for ancestor in ancestors for name in vars(ancestor).get("state_excludes", ())
        )


class SeededRng:
    """Mixin with the seeded random generator of an environment."""

    _rng: np.random.Generator | None = None
    _rng_seed: int | None = None

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the env, seeded by the operating system at first use."""
        if self._rng is None:
            self._set_rng(None)
            assert self._rng is not None
        return self._rng

    def _set_rng(self, seed: int | None) -> int:
        """Seed the generator, or keep the current one if `seed` is None; return the seed in use."""
        if seed is None:
            if self._rng is not None and self._rng_seed is not None:
                return self._rng_seed
            seed = int.from_bytes(os.urandom(8), "little") >> 1
        self._rng_seed = _checked_seed(seed)
        self._rng = np.random.default_rng(self._rng_seed)
        return self._rng_seed


class WrapperStack:
    """Attribute lookup through a stack of wrappers.

    Explicitly, and not by `__getattr__`: before Python 3.12 a class that has one pays for it with
    every attribute it reads, which would double the time of a step.
    """

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the wrappers and the env, outermost first."""
        yield self

    def has_attr(self, name: str) -> bool:
        """Return True if a wrapper or the env has the attribute."""
        return any(hasattr(layer, name) for layer in self)

    def get_attr(self, name: str) -> Any:
        """Return an attribute of the outermost wrapper that has it, or of the env."""
        for layer in self:
            if hasattr(layer, name):
                return getattr(layer, name)
        raise AttributeError(f"neither {self!r} nor an env inside it has an attribute {name!r}")

    def set_attr(self, name: str, value: Any) -> None:
        """Set an attribute on the outermost wrapper that has it, otherwise on the env."""
        layers = list(self)
        setattr(next((layer for layer in layers if hasattr(layer, name)), layers[-1]), name, value)


class BaseEnv(WrapperStack, Stateful, SeededRng, Closeable):
    """Base class of `Env` and `MultiAgentEnv`."""

    metadata: ClassVar[dict[str, Any]] = {}
    state_excludes: ClassVar[tuple[str, ...]] = ("spec",)
    spec: EnvSpec | None = None
    """Spec from which `sekai.make` created this env; None for an env created directly."""

    def close(self) -> None:
        """Release connections, files and processes."""

    def __repr__(self) -> str:
        name = f" {self.spec.id}" if self.spec is not None else ""
        return f"<{type(self).__name__}{name}>"


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer, or None; got {seed!r}")
    return int(seed)
