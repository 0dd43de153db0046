"""The end of all episodes, and how it is told through the layers of a stack.

An env that has no episode left answers `reset` with an observation that stands for none and
`info["exhausted"]` true. No layer must look into that observation, count it or learn from it.
"""

from __future__ import annotations

from typing import Any

from sekai.core.result import ResetResult

__all__ = ["EXHAUSTED", "is_exhausted", "shown_by"]

EXHAUSTED = "exhausted"
"""The key of an info under which the end is told."""


def is_exhausted(result: ResetResult[Any]) -> bool:
    """Whether a reset found no episode left."""
    info = result.info
    if not isinstance(info, dict) or info.get(EXHAUSTED) is not True:
        return False
    from sekai.spaces.blank import is_blank

    # Somebody else's info may have such a key, with a meaning of its own.
    return is_blank(result.observation)


def shown_by(layer: Any, result: ResetResult[Any]) -> ResetResult[Any]:
    """What a layer makes of such a reset: the same, in the form of its own observations."""
    if layer.observation_space is layer.env.observation_space:
        return result
    from sekai.spaces.blank import blank_sample

    return ResetResult(blank_sample(layer.observation_space), result.info)
