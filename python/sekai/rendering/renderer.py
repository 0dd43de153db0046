"""The contract of what draws an environment."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Frame", "Renderer", "Renders", "Watches"]

Frame = NDArray[np.uint8]
"""A picture: (height, width, 3), red, green and blue from 0 to 255."""


class Renders(Protocol):
    """What is asked of a renderer; functions that take one ask for no more."""

    def render(self, env: Any) -> Frame:
        """Draw `env` as it is now."""

    def close(self) -> None:
        """Release what the renderer holds."""


@runtime_checkable
class Watches(Protocol):
    """What a renderer has besides if its pictures tell of more than the present moment."""

    def watch(self, env: Any) -> None:
        """Take note of `env` as it is now, without drawing it."""


@runtime_checkable
class Renderer(Protocol):
    """Draws environments from outside. Write `render`, and `close` if there is something to free.

    Any object with these two methods is an instance; a class that inherits from this one can be
    used in a `with` as well, which closes the renderer at its end.
    """

    @abstractmethod
    def render(self, env: Any) -> Frame:
        """Draw `env` as it is now: a uint8 array (height, width, 3)."""

    def close(self) -> None:
        """Release what the renderer holds: figures, windows, files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        """Whether `other` can render and be closed: a `with` is offered, not asked for."""
        return all(callable(getattr(other, name, None)) for name in ("render", "close"))
