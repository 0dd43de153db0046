"""The observation that stands for none: what an env shows when its seeds are used up.

None cannot cross shared memory, so a value of the space's own form is given. Whether an env is
exhausted is told by `info["exhausted"]`: an observation of whole numbers, or of bools, may be at
its greatest everywhere without standing for anything.
"""

from __future__ import annotations

from typing import Any

from sekai.spaces import Space
from sekai.spaces.blank import blank_sample, is_blank

__all__ = ["check_nan_observation", "generate_nan_observation"]


def generate_nan_observation(space: Space[Any]) -> Any:
    """A value with the structure, shapes and dtypes of the space's, and nothing to say.

    Floats are NaN, times NaT, whole numbers the greatest of their dtype, bools True.
    """
    return blank_sample(space)


def check_nan_observation(obs: Any) -> bool:
    """Whether every number in the observation is what `generate_nan_observation` puts there.

    A plain bool is data: only arrays and scalars of NumPy stand for nothing.
    """
    return is_blank(obs)
