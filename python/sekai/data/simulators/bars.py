"""Bars of a price that diffuses: open, high, low, close and volume that belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sekai.data.simulators.streams import stream

__all__ = ["FIELDS", "Moves", "bars_of"]

Floats = NDArray[np.float64]

FIELDS = ("open", "high", "low", "close", "volume")

MEAN_ABSOLUTE_NORMAL = float(np.sqrt(2 / np.pi))

VOLUME_NOISE = 0.4
"""The standard deviation of the logarithm of volume that has nothing to do with the price."""


@dataclass(frozen=True, slots=True)
class Moves:
    """How the logarithm of a price moves, row by row."""

    before: Floats
    """From the close before to the open."""

    within: Floats
    """From the open to the close."""

    variance: Floats
    """The variance of what happens within each row."""

    surprise: Floats
    """The size of each row's whole move in usual standard deviations: what volume goes by."""


def bars_of(moves: Moves, seed: int, asset: str, *, price: float, volume: float) -> Floats:
    """The bars of one asset, a row each of `FIELDS`.

    High and low have the laws that a Brownian motion's extremes have between this open and this
    close, each by itself, and are drawn independently of each other. Volume is `volume` on
    average and rises with the size of the move.
    """
    ends = np.cumsum(moves.before + moves.within)
    begins = np.concatenate([[0.0], ends[:-1]]) + moves.before
    opens, closes = price * np.exp(begins), price * np.exp(ends)
    above = _beyond(moves, stream(seed, asset, "high"))
    below = _beyond(moves, stream(seed, asset, "low"))
    return np.stack(
        [
            opens,
            np.maximum(opens, closes) * np.exp(above),
            np.minimum(opens, closes) * np.exp(-below),
            closes,
            _volumes(moves.surprise, stream(seed, asset, "volume"), volume),
        ],
        axis=1,
    )


def _beyond(moves: Moves, rng: np.random.Generator) -> Floats:
    """How far the logarithm of a price went beyond both ends of each row, on one side.

    P(maximum > m) = exp(-2 (m - open) (m - close) / variance) for a Brownian bridge, solved for m.
    """
    exponential = rng.standard_exponential(len(moves.within))
    distance = np.abs(moves.within)
    reach = np.sqrt(distance * distance + 2 * moves.variance * exponential)
    beyond: Floats = (reach - distance) / 2
    return beyond


def _volumes(surprise: Floats, rng: np.random.Generator, mean: float) -> Floats:
    noise = np.exp(VOLUME_NOISE * rng.standard_normal(len(surprise)) - VOLUME_NOISE**2 / 2)
    volumes: Floats = mean * noise * (1 + surprise) / (1 + MEAN_ABSOLUTE_NORMAL)
    return volumes
