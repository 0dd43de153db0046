"""What every wrapper has, whether one agent acts inside or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sekai.core import state
from sekai.core.world import Stateful
from sekai.error import StateError

if TYPE_CHECKING:
    from typing_extensions import Self

    from sekai.registry.spec import EnvSpec

__all__ = ["Layer"]


class Layer(Stateful):
    """A layer around `env`: looks like it from outside, and knows how it was built."""

    state_excludes: ClassVar[tuple[str, ...]] = ("env", "_arguments")
    env: Any
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note how the layer is built, so that a spec can build it again."""
        self = super().__new__(cls)
        self._arguments = (args[1:], {name: v for name, v in kwargs.items() if name != "env"})
        return self

    def close(self) -> None:
        """Release what the env holds."""
        self.env.close()

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the wrapped env."""
        metadata: dict[str, Any] = self.env.metadata
        return metadata

    @property
    def spec(self) -> EnvSpec | None:
        """How to build this stack, layer by layer, if `sekai.make` built the env inside."""
        inner: EnvSpec | None = self.env.spec
        return inner.wrapped_by(self) if inner is not None else None

    @property
    def unwrapped(self) -> Any:
        """The env underneath all wrappers."""
        return self.env.unwrapped

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the wrapped env: one seed governs the whole stack."""
        generator: np.random.Generator = self.env.rng
        return generator

    def __iter__(self) -> Iterator[Any]:
        """The layers of the stack, from this one inwards."""
        yield self
        yield from self.env

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.env!r})>"

    def state_dict(self) -> dict[str, Any]:
        """The state of this layer and of everything below it."""
        return {"layer": state.capture(self, self._excluded()), "env": self.env.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from where `state_dict` was taken; a refused state changes nothing."""
        if state_dict.keys() != {"layer", "env"}:
            raise StateError(
                f"a state of the layer {type(self).__name__} has the keys 'layer' and 'env', "
                f"found {sorted(map(str, state_dict))}"
            )
        before = state.capture(self, self._excluded())
        state.restore(self, state_dict["layer"], self._excluded())
        try:
            self.env.load_state_dict(state_dict["env"])
        except Exception:
            state.restore(self, before, self._excluded())
            raise
