"""Trees of arrays with a row for each env, cut into those of some envs and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sekai.training.randomness import Portion
from sekai.vector.batching import map_arrays

__all__ = ["cut_rows", "joined_rows", "portions_of"]


def portions_of(num_envs: int, workers: int) -> list[Portion]:
    """All envs, one after the other, in portions that differ by one env at most."""
    least, more = divmod(num_envs, workers)
    ends = np.cumsum([least + (place < more) for place in range(workers)]).tolist()
    firsts = [0, *ends[:-1]]
    return [Portion(first, end, num_envs) for first, end in zip(firsts, ends, strict=True)]


def cut_rows(rows: Any, portion: Portion) -> Any:
    """The rows of some envs."""
    return map_arrays(lambda array: array[portion.first : portion.end].copy(), rows)


def joined_rows(parts: Sequence[Any]) -> Any:
    """The rows of all envs, from those of some each."""
    return map_arrays(lambda *arrays: np.concatenate(arrays), *parts)
