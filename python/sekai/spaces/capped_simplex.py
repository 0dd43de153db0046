"""Weights drawn uniformly from all that sum to one and keep under their caps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sekai.spaces.draw import Draw

_BATCH = 64
_BATCHES = 4
_LIKELY = 0.05
_SWEEPS = 48


def draw_weights(caps: NDArray[np.float64]) -> Draw:
    """A function that draws weights from zero to `caps` that sum to one; the caps sum to as much.

    Loose caps: weights under no caps are drawn until some keep under them. Tight caps: the same
    for what is left under the caps, which is a small simplex of its own. Between the two neither
    succeeds often enough, and weights are exchanged between random pairs until they are mixed.
    """
    spare = max(float(caps.sum()) - 1.0, 0.0)
    if (caps >= 1.0).all():
        return lambda rng: _free_weights(rng, 1, caps.size)[0]
    if spare == 0.0:
        return lambda _: caps.copy()
    if _chance(caps) >= _LIKELY:
        return lambda rng: _first_within(rng, caps, caps)
    if _chance(caps / spare) >= _LIKELY:
        return lambda rng: caps - spare * _first_within(rng, caps / spare, caps)
    return lambda rng: _exchanged(rng, caps)


def _chance(caps: NDArray[np.float64]) -> float:
    """About how often free weights keep under the caps, as if each did so on its own."""
    exceeds = np.power(1.0 - np.minimum(caps, 1.0), caps.size - 1)
    return float(np.prod(1.0 - exceeds))


def _free_weights(rng: np.random.Generator, rows: int, size: int) -> NDArray[np.float64]:
    gaps = rng.standard_exponential((rows, size))
    # A gap can be 0, all of them hardly ever; the smallest number keeps even that from dividing 0.
    gaps += np.finfo(np.float64).tiny
    return np.asarray(gaps / gaps.sum(axis=1, keepdims=True))


def _first_within(
    rng: np.random.Generator, limits: NDArray[np.float64], caps: NDArray[np.float64]
) -> NDArray[np.float64]:
    for _ in range(_BATCHES):
        weights = _free_weights(rng, _BATCH, limits.size)
        within = np.flatnonzero((weights <= limits).all(axis=1))
        if within.size:
            return np.asarray(weights[within[0]])
    # Out of luck: the exchange below always ends.
    weights = _exchanged(rng, caps)
    return weights if limits is caps else (caps - weights) / (caps.sum() - 1.0)


def _exchanged(rng: np.random.Generator, caps: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = caps / caps.sum()
    half = caps.size // 2
    for _ in range(_SWEEPS):
        order = rng.permutation(caps.size)
        one, other = order[:half], order[half : 2 * half]
        both = weights[one] + weights[other]
        least = np.maximum(both - caps[other], 0.0)
        most = np.minimum(both, caps[one])
        moved = least + rng.random(half) * (most - least)
        weights[one] = moved
        weights[other] = both - moved
    return np.asarray(weights)
