"""How long the blocks of a bootstrap should be, from the data: Politis and White, as corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.statistics.memory import memory_of

__all__ = ["block_length"]

Floats = NDArray[np.float64]


def block_length(series: Sequence[Floats]) -> float:
    """The expected length of blocks at which a stationary bootstrap of the mean errs least.

    Follows Politis and White (2004) with the correction of Patton, Politis and White (2009).
    Where episodes differ as a whole, blocks become long.
    """
    total = sum(len(one) for one in series)
    if total < 4:
        return 1.0
    longest = float(math.ceil(min(3.0 * math.sqrt(total), total / 3.0)))
    memory = memory_of(series)
    if not memory.variance > 0:
        return 1.0
    if not memory.long_run > 0:
        return longest
    best = math.pow(total * (memory.curvature / memory.long_run) ** 2, 1.0 / 3.0)
    return min(max(1.0, best), longest)
