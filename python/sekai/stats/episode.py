"""What is known about an episode when it has ended."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpisodeStats"]


@dataclass(frozen=True, slots=True)
class EpisodeStats:
    """One finished episode, in Python's own numbers: `dataclasses.asdict` is ready for JSON."""

    episode_return: float
    """Sum of the rewards."""

    episode_length: int
    """Steps taken."""

    elapsed_time: float
    """Seconds from the reset to the last step."""

    terminated: bool
    """Whether the task itself ended."""

    truncated: bool = False
    """Whether the episode was cut short from outside."""

    def __post_init__(self) -> None:
        # NumPy scalars get here from rewards and flags; neither JSON nor loggers know them.
        for name, kind in _KINDS:
            value = getattr(self, name)
            if type(value) is not kind:
                object.__setattr__(self, name, kind(value))


_KINDS: tuple[tuple[str, type[float] | type[int] | type[bool]], ...] = (
    ("episode_return", float),
    ("episode_length", int),
    ("elapsed_time", float),
    ("terminated", bool),
    ("truncated", bool),
)
