"""Series that charts show, made of what episodes hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode

__all__ = [
    "Floats",
    "aligned",
    "drawdown",
    "has_equity",
    "is_relative",
    "monthly_returns",
    "rolling_beta",
    "rolling_mean_and_deviation",
    "wealth",
]

Floats = NDArray[np.float64]


def has_equity(episodes: Sequence[Episode]) -> bool:
    """Whether there are accounts to draw."""
    return bool(episodes) and all(len(episode.equity) > 1 for episode in episodes)


def is_relative(episodes: Sequence[Episode]) -> bool:
    """Whether accounts began with money, so that growth means something."""
    return all(len(episode.equity) > 1 and episode.equity[0] > 0 for episode in episodes)


def wealth(episode: Episode, relative: bool) -> Floats:
    """What the account has grown by: as a share of what it began with, or in money."""
    gained: Floats = episode.equity - episode.equity[0]
    return gained / episode.equity[0] if relative else gained


def drawdown(episode: Episode, relative: bool) -> Floats:
    """How far equity is below its highest so far: as a share of that, or in money."""
    highest = np.fmax.accumulate(episode.equity)
    fallen: Floats = episode.equity - highest
    return fallen / highest if relative else fallen


def aligned(rows: Sequence[Floats]) -> Floats:
    """Series below one another; what ended early stays at what it ended with.

    Left out instead, the ruined would drop out of the median and flatter it.
    """
    longest = max(map(len, rows))
    return np.stack([np.pad(row, (0, longest - len(row)), mode="edge") for row in rows])


def monthly_returns(episode: Episode) -> dict[tuple[int, int], float]:
    """Growth by year and month; the first and last months may be parts of one."""
    if episode.times is None:
        return {}
    months = episode.times.astype("datetime64[M]").astype(np.int64)
    # Equity at the end of a month is where the next one starts from.
    ends = np.append(np.flatnonzero(np.diff(months)), len(months) - 1)
    starts = np.append(0, ends[:-1])
    growth = episode.equity[ends] / episode.equity[starts] - 1
    return {
        (1970 + int(month) // 12, 1 + int(month) % 12): float(grown)
        for month, grown, start, end in zip(months[ends], growth, starts, ends, strict=True)
        if end > start
    }


def rolling_mean_and_deviation(returns: Floats, window: int) -> tuple[Floats, Floats]:
    """Of the last `window` returns, from the first time that there are so many."""
    views = np.lib.stride_tricks.sliding_window_view(returns, window)
    return views.mean(axis=1), views.std(axis=1, ddof=1)


def rolling_beta(returns: Floats, benchmark: Floats, window: int) -> Floats:
    """How far the last `window` returns moved with a benchmark's; NaN where it stood still."""
    own = np.lib.stride_tricks.sliding_window_view(returns, window)
    other = np.lib.stride_tricks.sliding_window_view(benchmark, window)
    other = other - other.mean(axis=1, keepdims=True)
    moved = (other**2).sum(axis=1)
    together = (own * other).sum(axis=1)
    found: Floats = np.divide(together, moved, out=np.full(len(moved), np.nan), where=moved > 0)
    return found
