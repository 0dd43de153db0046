"""Episodes of one history: what they share is seen once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode

__all__ = ["counted_dates", "held_on", "is_one_history", "returns_by_date"]

Floats = NDArray[np.float64]

DISTINCT = 0.75
"""The share of rows that have to be different for episodes to count as several."""


def counted_dates(episodes: Sequence[Episode]) -> tuple[int, int]:
    """How many rows of episodes have dates, and how many of those are different."""
    times = [one.times for one in episodes if one.times is not None]
    if not times:
        return 0, 0
    return sum(map(len, times)), len(np.unique(np.concatenate(times)))


def is_one_history(episodes: Sequence[Episode]) -> bool:
    """Whether episodes share so many dates that they are not as many as there are."""
    total, distinct = counted_dates(episodes)
    return len(episodes) > 1 and distinct < DISTINCT * total


def returns_by_date(episodes: Sequence[Episode]) -> Floats:
    """Returns of all episodes in the order of time; of those on the same date the mean.

    Where nothing has a date, they stand one episode after the other.
    """
    accounts = [one for one in episodes if len(one.equity) > 1]
    if not accounts:
        return np.zeros(0)
    returns = np.concatenate([one.returns for one in accounts])
    if any(one.times is None for one in accounts):
        return returns
    times = np.concatenate([one.times[1:] for one in accounts if one.times is not None])
    _, places = np.unique(times, return_inverse=True)
    found: Floats = np.bincount(places, returns) / np.bincount(places)
    return found


def held_on(episodes: Sequence[Episode], others: Sequence[Episode]) -> list[Episode]:
    """Episodes as long as those of another policy: an account that ended stays what it was."""
    return [_as_long(one, other) for one, other in zip(episodes, others, strict=True)]


def _as_long(episode: Episode, other: Episode) -> Episode:
    missing = len(other.equity) - len(episode.equity)
    if missing <= 0 or not len(episode.equity):
        return episode
    equity = np.append(episode.equity, np.full(missing, episode.equity[-1]))
    return replace(episode, equity=equity, times=other.times)
