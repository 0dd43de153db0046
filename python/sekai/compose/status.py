"""Where an episode stands, as the policy saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["EnvWrapperStatus", "kept"]


@dataclass(slots=True, kw_only=True, eq=False)
class EnvWrapperStatus:
    """One episode in the policy's terms: raw actions, interpreted observations.

    After k steps there are k + 1 observations, k actions and k rewards, all of them copies.
    """

    cur_step: int = 0
    """Steps taken, the one under way included once its action is interpreted."""

    done: bool = False
    initial_state: Any = None
    """The seed of the episode."""

    obs_history: list[Any] = field(default_factory=list)
    action_history: list[Any] = field(default_factory=list)
    reward_history: list[float] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        """A field by its name, as components written for Qlib read it."""
        if name not in self.__dataclass_fields__:
            raise KeyError(
                f"no {name!r} in the status; there are {list(self.__dataclass_fields__)}"
            )
        return getattr(self, name)


def kept(value: Any) -> Any:
    """A copy of an observation or action that writing to the original does not change."""
    if type(value) is np.ndarray:
        return value.copy()
    if type(value) is dict:
        return {key: kept(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(kept, value))
    # Arrays of other libraries: torch calls it so.
    clone = getattr(value, "clone", None)
    return value if clone is None else clone()
