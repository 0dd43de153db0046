"""EpisodeRenderer: base class for renderers that plot the recent history of an episode."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.matplotlib_renderer import MatplotlibRenderer, check_count
from sekai.rendering.renderer import Frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


class Scene(Protocol):
    """State of an episode at one tick: the fields that every built-in task provides."""

    @property
    def seed(self) -> int:
        """Seed of the env."""

    @property
    def episode(self) -> int:
        """Number of episodes since seeding, before this one."""

    @property
    def tick(self) -> int:
        """Decisions taken in this episode."""

    @property
    def initial_cash(self) -> float:
        """Cash at the start of the episode."""

    @property
    def equity(self) -> float:
        """Cash plus the market value of positions."""


SceneType = TypeVar("SceneType", bound=Scene)


class EpisodeHistory(Generic[SceneType]):
    """Scenes of one episode in tick order, each with the highest equity so far.

    Args:
        ticks: number of past ticks to keep.
    """

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self._rows: deque[tuple[SceneType, float]] = deque()
        self._first: SceneType | None = None

    def append(self, scene: SceneType) -> None:
        """Add the current scene; scenes of another episode and of later ticks are removed."""
        rows = self._rows
        if rows and (rows[-1][0].seed, rows[-1][0].episode) != (scene.seed, scene.episode):
            rows.clear()
        # The same tick again, or a restored state.
        while rows and rows[-1][0].tick >= scene.tick:
            rows.pop()
        if not rows:
            self._first = scene
        previous_peak = rows[-1][1] if rows else scene.initial_cash
        rows.append((scene, max(previous_peak, scene.equity)))
        while rows[0][0].tick < scene.tick - self.ticks:
            rows.popleft()

    @property
    def scenes(self) -> list[SceneType]:
        """Stored scenes, oldest first."""
        return [scene for scene, _ in self._rows]

    @property
    def first(self) -> SceneType:
        """First scene of the episode that was added, even if it is no longer stored."""
        assert self._first is not None, "a scene was added"
        return self._first

    @property
    def last(self) -> SceneType:
        """Current scene."""
        return self._rows[-1][0]

    def column(self, name: str) -> Floats:
        """Values of one field over all scenes; NaN where it is None."""
        values = (getattr(scene, name) for scene, _ in self._rows)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def peaks(self) -> Floats:
        """Highest equity up to each scene."""
        return np.array([peak for _, peak in self._rows])


class EpisodeRenderer(MatplotlibRenderer, Generic[SceneType]):
    """Renderer base class that plots the last `ticks` ticks of an episode.

    `watch(env)` records a tick without drawing, which is fast; `render(env)` does both. Artists
    are created once and updated later. A renderer follows one env at a time; its history restarts
    with each episode of that env.

    Args:
        env_index: index of the env in a vector env; 0 for a single env.
        ticks: number of ticks on the x axis.
        width: width of the frame in pixels.
        height: height of the frame in pixels.
        dpi: resolution that text is sized for.
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
        super().__init__(width, height, dpi)
        check_count("ticks", ticks)
        self.env_index = env_index
        self.history: EpisodeHistory[SceneType] = EpisodeHistory(ticks)
        self._is_built = False

    @abstractmethod
    def read_scene(self, env: Any) -> SceneType:
        """Read the current scene of `env`."""

    @abstractmethod
    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""

    @abstractmethod
    def update(self, history: EpisodeHistory[SceneType]) -> None:
        """Update the artists to show `history`."""

    def watch(self, env: Any) -> None:
        """Record the current state of `env` without drawing it."""
        self.history.append(self.read_scene(env))

    def draw(self, env: Any, figure: Figure) -> None:
        """Draw the current state of `env` on an empty `figure`."""
        self.watch(env)
        self.build(figure)
        self.update(self.history)

    def render(self, env: Any) -> Frame:
        """Draw the current state of `env`, updating the artists of the last frame."""
        figure = self._figure()
        self.watch(env)
        if not self._is_built:
            figure.clear()
            self.build(figure)
        # False until done: after a failed update the figure is rebuilt.
        self._is_built = False
        self.update(self.history)
        frame = self._pixels()
        self._is_built = True
        return frame


def native_scene(env: Any, env_index: int, *arguments: Any) -> dict[str, Any]:
    """Read the scene of one env from the native batch of a single or vector env."""
    inner = env.unwrapped
    scene = getattr(inner, "scene", None) or getattr(getattr(inner, "batch", None), "scene", None)
    if scene is None:
        raise TypeError(
            f"cannot draw {type(inner).__name__}: it has no native batch; expected an env or "
            "vector env of a built-in task"
        )
    values: dict[str, Any] = scene(env_index, *arguments)
    return values
