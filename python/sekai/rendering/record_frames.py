"""Record what an environment looks like while it runs."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.rendering.frames import checked_frame
from sekai.rendering.renderer import Frame, Renders, Watches
from sekai.rendering.trigger import Moment, Trigger

__all__ = ["RecordFrames"]


class RecordFrames(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Draws a frame after every reset and step, or when `trigger` says so.

    `frames` is what was recorded, `episodes` the same by episode. The recording is no part of
    the env's state, and the renderer stays its owner's to close. A renderer with a `watch(env)`
    is called by it at the moments that are not drawn, so that it misses none.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("renderer", "trigger", "episodes", "_counts")

    def __init__(
        self,
        env: Env[ObsType, ActType],
        renderer: Renders,
        trigger: Trigger | None = None,
        keep_episodes: int | None = None,
    ) -> None:
        """Record `env` as `renderer` sees it.

        Args:
            env: what to record.
            renderer: draws the frames; may be exchanged while the env runs.
            trigger: says for each `Moment` whether to draw; None draws always.
            keep_episodes: forget the oldest recorded episodes beyond so many; None keeps all.
        """
        super().__init__(env)
        if keep_episodes is not None and keep_episodes < 1:
            raise ValueError(f"keep_episodes must be at least 1, or None; was {keep_episodes!r}")
        self.renderer = renderer
        self.trigger = trigger
        self.episodes: deque[list[Frame]] = deque(maxlen=keep_episodes)
        self._counts = _Counts()

    @property
    def frames(self) -> list[Frame]:
        """All recorded frames, oldest first."""
        return [frame for episode in self.episodes for frame in episode]

    def clear(self) -> None:
        """Forget what was recorded."""
        self.episodes.clear()
        self._counts.recorded_episode = None

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._counts.begin_episode()
        self._record()
        return result

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        self._counts.take_step()
        self._record()
        return result

    def _record(self) -> None:
        moment = self._counts.moment()
        if self.trigger is not None and not self.trigger(moment):
            if isinstance(self.renderer, Watches):
                self.renderer.watch(self.env)
            return
        source = f"the frame of {type(self.renderer).__name__}"
        frame = checked_frame(self.renderer.render(self.env), source)
        if self._counts.recorded_episode != moment.episode:
            self._counts.recorded_episode = moment.episode
            self.episodes.append([])
        # A renderer may draw the next frame into the same memory.
        self.episodes[-1].append(frame.copy())


class _Counts:
    """How far the recorded run has come."""

    def __init__(self) -> None:
        self.recorded_episode: int | None = None
        self._episodes = 0
        self._step = 0
        self._total_steps = 0

    def begin_episode(self) -> None:
        self._episodes += 1
        self._step = 0

    def take_step(self) -> None:
        self._step += 1
        self._total_steps += 1

    def moment(self) -> Moment:
        # An env that was restored in mid-episode steps without having begun one here.
        return Moment(max(self._episodes - 1, 0), self._step, self._total_steps)
