"""RecordFrames wrapper and the triggers that select the steps to record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.rendering.renderer import Frame, Renders, Watches, checked_frame


@dataclass(frozen=True, slots=True)
class RecordingStep:
    """Position of a recording, as passed to a trigger."""

    episode: int
    """Index of the episode, from 0."""

    step: int
    """Steps taken in this episode: 0 after its reset."""

    total_steps: int
    """Steps taken in all episodes."""


Trigger: TypeAlias = Callable[[RecordingStep], bool]
"""Function that returns True if a frame is recorded at this step."""


class RecordFrames(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that renders a frame after every reset and step, or when `trigger` is true.

    `frames` holds all recorded frames, `episodes` the same by episode. The recording is not part
    of the env's state, and the wrapper does not close the renderer. A renderer with `watch(env)`
    sees the steps that are not drawn through it.

    Args:
        env: the env to record.
        renderer: draws the frames; may be replaced between steps.
        trigger: selects the steps to record; None records all.
        keep_episodes: number of recorded episodes to keep, the oldest are dropped; None keeps all.
    """

    state_excludes: ClassVar[tuple[str, ...]] = ("renderer", "trigger", "episodes", "_counts")

    def __init__(
        self,
        env: Env[ObsType, ActType],
        renderer: Renders,
        trigger: Trigger | None = None,
        keep_episodes: int | None = None,
    ) -> None:
        super().__init__(env)
        if keep_episodes is not None and keep_episodes < 1:
            raise ValueError(f"keep_episodes must be at least 1 or None, got {keep_episodes!r}")
        self.renderer = renderer
        self.trigger = trigger
        self.episodes: deque[list[Frame]] = deque(maxlen=keep_episodes)
        self._counts = _Counts()

    @property
    def frames(self) -> list[Frame]:
        """All recorded frames, oldest first."""
        return [frame for episode in self.episodes for frame in episode]

    def clear(self) -> None:
        """Delete all recorded frames."""
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
        current = self._counts.current()
        if self.trigger is not None and not self.trigger(current):
            if isinstance(self.renderer, Watches):
                self.renderer.watch(self.env)
            return
        source = f"frame of {type(self.renderer).__name__}"
        frame = checked_frame(self.renderer.render(self.env), source)
        if self._counts.recorded_episode != current.episode:
            self._counts.recorded_episode = current.episode
            self.episodes.append([])
        # A renderer may draw the next frame into the same memory.
        self.episodes[-1].append(frame.copy())


def every_episode(number: int) -> Trigger:
    """Record every `number`-th episode, starting with the first."""
    if number < 1:
        raise ValueError(f"every_episode needs at least 1 episode, got {number}")
    return lambda current: current.episode % number == 0


def every_step(number: int) -> Trigger:
    """Record every `number`-th step of every episode, starting with its reset."""
    if number < 1:
        raise ValueError(f"every_step needs at least 1 step, got {number}")
    return lambda current: current.step % number == 0


def first_steps(number: int) -> Trigger:
    """Record the first `number` steps, counted over all episodes."""
    if number < 0:
        raise ValueError(f"first_steps needs at least 0 steps, got {number}")
    return lambda current: current.total_steps <= number


class _Counts:
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

    def current(self) -> RecordingStep:
        # An env restored in mid-episode is stepped before its first reset here.
        return RecordingStep(max(self._episodes - 1, 0), self._step, self._total_steps)
