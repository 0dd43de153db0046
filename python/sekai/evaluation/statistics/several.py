"""Chances of several comparisons at once: who looks often enough finds something."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["holm"]


def holm(chances: Sequence[float]) -> list[float]:
    """P-values of tests that were made together, adjusted by Holm's method, in the same order.

    Whoever believes those below 5 % believes anything that is not so in at most 5 % of cases,
    however many tests there were and however they depend on each other. NaN, where there was no
    test, stays so and counts for nothing.
    """
    tested = sorted(
        (place for place, one in enumerate(chances) if not math.isnan(one)),
        key=lambda place: chances[place],
    )
    found, highest = [math.nan] * len(chances), 0.0
    for done, place in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - done) * chances[place]))
        found[place] = highest
    return found
