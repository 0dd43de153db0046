"""Drawing environments from outside, and keeping what was drawn."""

from sekai.rendering.composite import CompositeRenderer
from sekai.rendering.gif import save_gif
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.record_frames import RecordFrames
from sekai.rendering.renderer import Frame, Renderer, Renders
from sekai.rendering.trigger import Moment, Trigger, every_episode, first_steps
from sekai.rendering.video import save_video

__all__ = [
    "CompositeRenderer",
    "Frame",
    "MatplotlibRenderer",
    "Moment",
    "RecordFrames",
    "Renderer",
    "Renders",
    "Trigger",
    "every_episode",
    "first_steps",
    "save_gif",
    "save_video",
]
