"""Draws of the stationary bootstrap: blocks of random lengths, from episodes that are circles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["resampled_rows"]

AT_ONCE = 1 << 20
"""Numbers of rows that are held at one time, whatever the number of resamples."""


def resampled_rows(
    lengths: Sequence[int], block: float, resamples: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Rows of episodes joined end to end: an array of resamples by rows, until all are drawn.

    Follows Politis and Romano (1994): at each place a new block begins with a chance of one in
    `block`, anywhere; else the row is the one after, where the first of an episode comes after
    its last. A block never runs on into another episode.
    """
    total = sum(lengths)
    length = np.repeat(np.asarray(lengths, np.int64), lengths)
    begin = np.repeat(np.cumsum([0, *lengths[:-1]], dtype=np.int64), lengths)
    at_once = max(1, AT_ONCE // total)
    for done in range(0, resamples, at_once):
        shape = (min(at_once, resamples - done), total)
        since, first = _blocks(shape, block, rng)
        origin = begin[first]
        yield origin + (first - origin + since) % length[first]


def _blocks(
    shape: tuple[int, int], block: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each place: how far into its block it is, and the row that the block begins with."""
    begins = rng.random(shape) < 1.0 / block
    begins[:, 0] = True
    place = np.arange(shape[1], dtype=np.int64)
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    drawn = rng.integers(0, shape[1], shape)
    return place - start, np.take_along_axis(drawn, start, axis=1)
