"""MatplotlibRenderer: base class for renderers that draw with Matplotlib, without a display."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.error import ClosedError
from sekai.rendering.renderer import Frame, Renderer
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MatplotlibRenderer(Renderer):
    """Renderer base class: subclasses implement `draw(env, figure)`.

    Each renderer has its own figure and does not use pyplot, so no display is needed.

    Args:
        width: width of the frame in pixels.
        height: height of the frame in pixels.
        dpi: resolution that text is sized for.
    """

    def __init__(self, width: int = 640, height: int = 480, dpi: int = 100) -> None:
        for name, value in (("width", width), ("height", height), ("dpi", dpi)):
            check_count(name, value)
        self.width = width
        self.height = height
        self.dpi = dpi
        self._canvas: Any = None  # Matplotlib's canvases have no types.
        self._closed = False

    @abstractmethod
    def draw(self, env: Any, figure: Figure) -> None:
        """Draw the current state of `env` on an empty `figure`."""

    def render(self, env: Any) -> Frame:
        """Draw the current state of `env`."""
        figure = self._figure()
        figure.clear()
        self.draw(env, figure)
        return self._pixels()

    def _figure(self) -> Figure:
        if self._closed:
            raise ClosedError(f"the {type(self).__name__} is closed; create a new one")
        if self._canvas is None:
            self._canvas = _new_canvas(self.width, self.height, self.dpi)
        figure: Figure = self._canvas.figure
        return figure

    def _pixels(self) -> Frame:
        self._canvas.draw()
        # A copy: the next call draws over the canvas.
        pixels: Frame = np.asarray(self._canvas.buffer_rgba())[:, :, :3].copy()
        return pixels

    def close(self) -> None:
        """Free the figure; a second call does nothing."""
        self._closed = True
        if self._canvas is not None:
            self._canvas.figure.clear()
            self._canvas = None


def check_count(name: str, value: int) -> None:
    """Raise a `ValueError` if `value` is not an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def _new_canvas(width: int, height: int, dpi: int) -> Any:
    agg = optional_import("matplotlib.backends.backend_agg", "report", "MatplotlibRenderer")
    from matplotlib.figure import Figure

    # Some versions of Matplotlib truncate to whole pixels: the quarter keeps 29 from becoming 28.
    inches = ((width + 0.25) / dpi, (height + 0.25) / dpi)
    return agg.FigureCanvasAgg(Figure(figsize=inches, dpi=dpi))
