"""The last ticks of an episode, as a renderer has seen them."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.scene import Scene

__all__ = ["EpisodeHistory"]

SceneType = TypeVar("SceneType", bound=Scene)
Floats = NDArray[np.float64]


class EpisodeHistory(Generic[SceneType]):
    """Scenes of one episode in the order of their ticks, each with the highest equity until it."""

    def __init__(self, ticks: int) -> None:
        """Remember the last `ticks` ticks and the moment before them."""
        self.ticks = ticks
        self._rows: deque[tuple[SceneType, float]] = deque()
        self._first: SceneType | None = None

    def note(self, scene: SceneType) -> None:
        """Take in the present scene; what it contradicts is forgotten."""
        rows = self._rows
        if rows and (rows[-1][0].seed, rows[-1][0].episode) != (scene.seed, scene.episode):
            rows.clear()
        # The same tick again, or a state that was restored from before.
        while rows and rows[-1][0].tick >= scene.tick:
            rows.pop()
        if not rows:
            self._first = scene
        before = rows[-1][1] if rows else scene.initial_cash
        rows.append((scene, max(before, scene.equity)))
        while rows[0][0].tick < scene.tick - self.ticks:
            rows.popleft()

    @property
    def scenes(self) -> list[SceneType]:
        """Oldest first."""
        return [scene for scene, _ in self._rows]

    @property
    def first(self) -> SceneType:
        """The earliest that was seen of the episode, also when it has left."""
        assert self._first is not None, "something was noted"
        return self._first

    @property
    def last(self) -> SceneType:
        """The present."""
        return self._rows[-1][0]

    def column(self, name: str) -> Floats:
        """One number of every scene; NaN where there is none."""
        values = (getattr(scene, name) for scene, _ in self._rows)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def peaks(self) -> Floats:
        """The highest equity until every scene."""
        return np.array([peak for _, peak in self._rows])
