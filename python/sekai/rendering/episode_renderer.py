"""Draws an episode of a built-in task as it unfolds."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from sekai.rendering.episode_history import EpisodeHistory, SceneType
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.renderer import Frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EpisodeRenderer"]


class EpisodeRenderer(MatplotlibRenderer, Generic[SceneType]):
    """Remembers the ticks that it was shown, and draws the last of them.

    `watch(env)` takes note of a tick without drawing it, which is quick; `render(env)` does both.
    What is drawn is made once and only moved later. A renderer follows one env at a time, and
    begins anew when that env begins another episode.
    """

    def __init__(
        self,
        *,
        env_index: int = 0,
        ticks: int = 300,
        width: int = 640,
        height: int = 800,
        dpi: int = 100,
    ) -> None:
        """Draw the last ticks of an env.

        Args:
            env_index: which env of a vector env is drawn; a single env is number 0.
            ticks: how many ticks there is room for; older ones leave on the left.
            width: of the picture, in pixels.
            height: of the picture, in pixels.
            dpi: what text is sized for.
        """
        super().__init__(width, height, dpi)
        if isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 1:
            raise ValueError(f"ticks must be a whole number of at least 1, was {ticks!r}")
        self.env_index = env_index
        self.history: EpisodeHistory[SceneType] = EpisodeHistory(ticks)
        self._is_built = False

    @abstractmethod
    def look(self, env: Any) -> SceneType:
        """What `env` is like now."""

    @abstractmethod
    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""

    @abstractmethod
    def update(self, history: EpisodeHistory[SceneType]) -> None:
        """Let what was made show `history`."""

    def watch(self, env: Any) -> None:
        """Take note of `env` as it is now, without drawing it."""
        self.history.note(self.look(env))

    def draw(self, env: Any, figure: Figure) -> None:
        """Draw `env` as it is now on an empty `figure`."""
        self.watch(env)
        self.build(figure)
        self.update(self.history)

    def render(self, env: Any) -> Frame:
        """Draw `env` as it is now, moving what was drawn before."""
        figure = self._figure()
        self.watch(env)
        if not self._is_built:
            figure.clear()
            self.build(figure)
        # Until it is done: what failed half-way is made anew.
        self._is_built = False
        self.update(self.history)
        picture = self._picture()
        self._is_built = True
        return picture
