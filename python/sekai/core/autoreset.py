"""Autoreset and exhausted envs: info keys and results at the end of an episode.

An autoreset result holds the first observation of the next episode. Its info lists, in this order,
the info of the reset, `final_observation` and `final_info` of the finished episode, and the other
entries of the final step, such as `episode`.

An env without further episodes returns a blank observation and `info["exhausted"] = True` from
`reset`. Wrappers must neither transform nor count that observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Literal, TypeAlias, get_args

from sekai.core.result import ResetResult, StepResult

Autoreset: TypeAlias = Literal["same_step", "next_step", "disabled"]
"""Autoreset mode of a vector env.

`same_step`: the step that ends an episode also resets the env and returns its first observation;
`final_observation` and `final_info` hold the end of the finished episode, and entries of that info
which the reset's info lacks are at the top level too. `next_step`: the step that ends an episode
returns its last observation; the next step ignores its action, resets the env and has reward 0.
`disabled`: the caller resets envs by ids.
"""


FINAL_OBSERVATION = "final_observation"
FINAL_INFO = "final_info"
ACTION_MASK = "action_mask"

OBSERVATION_KEYS = frozenset({ACTION_MASK})
"""Info keys that describe the observation they come with."""


def autoreset_result(
    last: StepResult[Any], final_observation: Any, first: ResetResult[Any]
) -> StepResult[Any]:
    """Combine the final step of an episode and the reset after it into one result."""
    info = {
        **first.info,
        FINAL_OBSERVATION: final_observation,
        FINAL_INFO: last.info,
        **carried_info(last.info, first.info),
    }
    return StepResult(first.observation, last.reward, last.terminated, last.truncated, info)


def carried_info(last: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a final step's info that are added to the info of the next reset.

    Entries of the reset take precedence, and an action mask stays with its own observation.
    """
    return {
        key: value
        for key, value in last.items()
        if key not in first and key not in OBSERVATION_KEYS
    }


def reset_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Extract the info of the reset from the info of an autoreset result."""
    names = takewhile(lambda key: key not in (FINAL_OBSERVATION, FINAL_INFO), info)
    return {key: info[key] for key in names}


def has_autoreset(result: StepResult[Any]) -> bool:
    """Return True if the env or a wrapper has already started the next episode."""
    return FINAL_OBSERVATION in result.info


EXHAUSTED = "exhausted"
"""Info key of a reset without a further episode."""


def is_exhausted(result: ResetResult[Any]) -> bool:
    """Return True if a reset found no further episode."""
    info = result.info
    if not isinstance(info, dict) or info.get(EXHAUSTED) is not True:
        return False
    from sekai.spaces.blank import is_blank

    # A custom env may use the same key with another meaning.
    return is_blank(result.observation)


def exhausted_result(layer: Any, result: ResetResult[Any]) -> ResetResult[Any]:
    """Return an exhausted reset with a blank observation of the wrapper's own space."""
    if layer.observation_space is layer.env.observation_space:
        return result
    from sekai.spaces.blank import blank_sample

    return ResetResult(blank_sample(layer.observation_space), result.info)


def checked_autoreset(autoreset: str) -> Autoreset:
    """Return the mode, or raise `ValueError` if it is unknown."""
    for mode in get_args(Autoreset):
        if mode == autoreset:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"autoreset must be one of {get_args(Autoreset)}, got {autoreset!r}")


def step_from_reset(first: ResetResult[Any]) -> StepResult[Any]:
    """Return a reset as a step with reward 0 that ends nothing."""
    return StepResult(first.observation, 0.0, False, False, first.info)
