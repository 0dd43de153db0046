"""Renderer interface, frame validation, composite renderer and renderer lookup."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.error import ClosedError
from sekai.registry import spec
from sekai.registry.entry_point import loaded

if TYPE_CHECKING:
    from typing_extensions import Self

Frame = NDArray[np.uint8]
"""RGB image of shape (height, width, 3)."""


class Renders(Protocol):
    """Minimal renderer interface, as required by functions that take a renderer."""

    def render(self, env: Any) -> Frame:
        """Draw the current state of `env`."""

    def close(self) -> None:
        """Release the resources of the renderer."""


@runtime_checkable
class Watches(Protocol):
    """Interface of renderers whose frames show past steps as well."""

    def watch(self, env: Any) -> None:
        """Record the current state of `env` without drawing it."""


@runtime_checkable
class Renderer(Protocol):
    """Renderer interface: draws an environment from outside.

    Any object with `render` and `close` is an instance; a subclass can also be used in a `with`
    statement, which closes the renderer.
    """

    @abstractmethod
    def render(self, env: Any) -> Frame:
        """Draw the current state of `env`: a uint8 array of shape (height, width, 3)."""

    def close(self) -> None:
        """Release the resources of the renderer: figures, windows, files."""

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
        """Return True if `other` has `render` and `close`; `with` support is optional."""
        return all(callable(getattr(other, name, None)) for name in ("render", "close"))


class CompositeRenderer(Renderer):
    """Renderer that joins the frames of several renderers into one image.

    `frames` holds the parts of the last image. Smaller frames are padded with black.

    Args:
        renderers: the renderers, from left to right or from top to bottom.
        layout: `row` or `column`.
    """

    def __init__(self, *renderers: Renders, layout: Literal["row", "column"] = "row") -> None:
        if not renderers:
            raise ValueError("no renderers: CompositeRenderer needs at least one")
        if layout not in ("row", "column"):
            raise ValueError(f"layout must be 'row' or 'column', got {layout!r}")
        self.renderers = renderers
        self.frames: tuple[Frame, ...] = ()
        self._axis = 1 if layout == "row" else 0
        self._closed = False

    def render(self, env: Any) -> Frame:
        """Draw `env` with every renderer."""
        self._check_open()
        self.frames = tuple(
            checked_frame(renderer.render(env), f"frame of {type(renderer).__name__}")
            for renderer in self.renderers
        )
        return _joined(self.frames, self._axis)

    def watch(self, env: Any) -> None:
        """Call `watch` of every renderer that has it."""
        self._check_open()
        for renderer in self.renderers:
            if isinstance(renderer, Watches):
                renderer.watch(env)

    def close(self) -> None:
        """Close every renderer, even if one of them fails; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.frames = ()
        _close_all(self.renderers)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the CompositeRenderer is closed; create a new one")


def renderer_for(env: Any, **settings: Any) -> Renders:
    """Create the renderer that `env` names in `metadata["renderer"]`.

    All built-in tasks have one. For your own env name a class, or its import path
    `"module:Class"`.

    Args:
        env: an env, wrapped or not, or a registered env id.
        settings: arguments of the renderer, such as `width` and `height`.

    Raises:
        TypeError: the env names no renderer.
    """
    env_type = loaded(spec(env).entry_point) if isinstance(env, str) else env
    renderer_type = getattr(env_type, "metadata", {}).get("renderer")
    if renderer_type is None:
        raise TypeError(
            f"no renderer in the metadata of {env!r}; subclass MatplotlibRenderer and name it in "
            "metadata['renderer']"
        )
    renderer: Renders = loaded(renderer_type)(**settings)
    return renderer


def checked_frame(frame: Any, source: str) -> Frame:
    """Return `frame` if it is an RGB image, else raise a `ValueError` that names `source`."""
    if not isinstance(frame, np.ndarray):
        raise ValueError(f"{source} must be a NumPy array, got {type(frame).__name__}")
    is_rgb = frame.ndim == 3 and frame.shape[2] == 3 and min(frame.shape) > 0
    if frame.dtype != np.uint8 or not is_rgb:
        raise ValueError(
            f"{source} must be uint8 of shape (height, width, 3), "
            f"got {frame.dtype} of shape {frame.shape}"
        )
    return frame


def _joined(frames: Sequence[Frame], axis: int) -> Frame:
    across = 1 - axis
    extent = max(frame.shape[across] for frame in frames)
    parts = []
    for frame in frames:
        margins = [(0, 0), (0, 0), (0, 0)]
        margins[across] = (0, extent - frame.shape[across])
        parts.append(np.pad(frame, margins))
    return np.concatenate(parts, axis=axis)


def _close_all(renderers: Sequence[Renders]) -> None:
    if not renderers:
        return
    try:
        renderers[0].close()
    finally:
        _close_all(renderers[1:])
