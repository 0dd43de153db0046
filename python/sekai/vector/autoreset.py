"""When the envs of a vector begin their next episode, and what the caller sees of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from sekai.core.result import ResetResult, StepResult

__all__ = ["FINAL_INFO", "FINAL_OBSERVATION", "Autoreset", "checked_autoreset", "fresh", "joined"]

Autoreset: TypeAlias = Literal["same_step", "next_step", "disabled"]
"""`same_step`: the step that ends an episode also begins the next and shows its first observation;
the last observation and info of the finished one are in `final_observation` and `final_info`.
`next_step`: the step that ends an episode shows its last observation; the next step ignores its
action, begins the next episode, and pays nothing. `disabled`: the caller resets, by ids."""

FINAL_OBSERVATION = "final_observation"
FINAL_INFO = "final_info"


def checked_autoreset(autoreset: str) -> Autoreset:
    """The mode, or a `ValueError` that names the three there are."""
    for mode in get_args(Autoreset):
        if mode == autoreset:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"autoreset must be one of {get_args(Autoreset)}, was {autoreset!r}")


def joined(
    last: StepResult[Any], final_observation: Any, first: ResetResult[Any]
) -> StepResult[Any]:
    """The step that ended an episode and the reset that began the next, as one row."""
    info = {**first.info, FINAL_OBSERVATION: final_observation, FINAL_INFO: last.info}
    return StepResult(first.observation, last.reward, last.terminated, last.truncated, info)


def fresh(first: ResetResult[Any]) -> StepResult[Any]:
    """A reset that stands in the place of a step: it pays nothing and ends nothing."""
    return StepResult(first.observation, 0.0, False, False, first.info)
