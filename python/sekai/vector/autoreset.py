"""When the envs of a vector begin their next episode, and what the caller sees of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from sekai.core.autoreset import FINAL_INFO, FINAL_OBSERVATION
from sekai.core.result import ResetResult, StepResult

__all__ = ["FINAL_INFO", "FINAL_OBSERVATION", "Autoreset", "checked_autoreset", "fresh"]

Autoreset: TypeAlias = Literal["same_step", "next_step", "disabled"]
"""`same_step`: the step that ends an episode also begins the next and shows its first observation;
the last observation and info of the finished one are in `final_observation` and `final_info`, and
what that info says beside what the reset's info says stands at the top level too.
`next_step`: the step that ends an episode shows its last observation; the next step ignores its
action, begins the next episode, and pays nothing. `disabled`: the caller resets, by ids."""


def checked_autoreset(autoreset: str) -> Autoreset:
    """The mode, or a `ValueError` that names the three there are."""
    for mode in get_args(Autoreset):
        if mode == autoreset:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"autoreset must be one of {get_args(Autoreset)}, was {autoreset!r}")


def fresh(first: ResetResult[Any]) -> StepResult[Any]:
    """A reset that stands in the place of a step: it pays nothing and ends nothing."""
    return StepResult(first.observation, 0.0, False, False, first.info)
