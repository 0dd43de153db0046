"""Draws with Matplotlib, with or without a screen."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import ClosedError, MissingExtraError
from sekai.rendering.renderer import Frame, Renderer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MatplotlibRenderer"]


class MatplotlibRenderer(Renderer):
    """Write `draw(env, figure)`; the rest is done.

    The figure belongs to the renderer alone: pyplot and its choice of backend play no part, so
    nothing is left behind and no screen is needed.
    """

    def __init__(self, width: int = 640, height: int = 480, dpi: int = 100) -> None:
        """Draw pictures of `width` by `height` pixels, with text sized for `dpi`."""
        for name, value in (("width", width), ("height", height), ("dpi", dpi)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, was {value!r}")
        self.width = width
        self.height = height
        self.dpi = dpi
        self._canvas: Any = None  # Matplotlib's canvases have no types.
        self._closed = False

    @abstractmethod
    def draw(self, env: Any, figure: Figure) -> None:
        """Draw `env` as it is now on an empty `figure`."""

    def render(self, env: Any) -> Frame:
        """Draw `env` as it is now."""
        figure = self._figure()
        figure.clear()
        self.draw(env, figure)
        return self._picture()

    def _figure(self) -> Figure:
        """The figure that is drawn on, with what was drawn last."""
        if self._closed:
            raise ClosedError(f"the {type(self).__name__} is closed: make a new one")
        if self._canvas is None:
            self._canvas = _new_canvas(self.width, self.height, self.dpi)
        figure: Figure = self._canvas.figure
        return figure

    def _picture(self) -> Frame:
        """What is on the figure, as pixels."""
        self._canvas.draw()
        # The canvas is drawn over by the next call; the frame must not be.
        picture: Frame = np.asarray(self._canvas.buffer_rgba())[:, :, :3].copy()
        return picture

    def close(self) -> None:
        """Free the figure; a second call does nothing."""
        self._closed = True
        if self._canvas is not None:
            self._canvas.figure.clear()
            self._canvas = None


def _new_canvas(width: int, height: int, dpi: int) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError.of("matplotlib", "report", "MatplotlibRenderer") from error
    # Some versions of Matplotlib cut down to whole pixels: the quarter keeps 29 from being 28.
    inches = ((width + 0.25) / dpi, (height + 0.25) / dpi)
    return FigureCanvasAgg(Figure(figsize=inches, dpi=dpi))
