"""What is known about an episode when it has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

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

    @classmethod
    def of_columns(cls, *columns: Sequence[float]) -> list[Self]:
        """Many episodes at once, from one list of Python's own numbers for each field, in order."""
        episodes = list(map(object.__new__, repeat(cls, len(columns[0]))))
        for set_field, column in zip(_SETTERS, columns, strict=True):
            # Straight into the slots, a column at a time: `__init__` takes several times as long.
            deque(map(set_field, episodes, column), maxlen=0)
        return episodes


_KINDS: tuple[tuple[str, type[float] | type[int] | type[bool]], ...] = (
    ("episode_return", float),
    ("episode_length", int),
    ("elapsed_time", float),
    ("terminated", bool),
    ("truncated", bool),
)
_SETTERS = [getattr(EpisodeStats, name).__set__ for name, _ in _KINDS]
