"""Autoreset: the step that ends an episode and the reset that begins the next, as one result.

The result shows the next episode's first observation. Its info holds, in this order, what the
reset said, the last observation and info of the finished episode, and what else the finishing step
said, `episode` above all.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from sekai.core.result import ResetResult, StepResult

__all__ = [
    "ACTION_MASK",
    "FINAL_INFO",
    "FINAL_OBSERVATION",
    "carried_over",
    "has_reset_itself",
    "joined",
    "said_by_reset",
]

FINAL_OBSERVATION = "final_observation"
FINAL_INFO = "final_info"
ACTION_MASK = "action_mask"

OBSERVATION_KEYS = frozenset({ACTION_MASK})
"""Keys of an info that describe the observation beside it, and no other one."""


def joined(
    last: StepResult[Any], final_observation: Any, first: ResetResult[Any]
) -> StepResult[Any]:
    """The step that ended an episode and the reset that began the next, as one result."""
    info = {
        **first.info,
        FINAL_OBSERVATION: final_observation,
        FINAL_INFO: last.info,
        **carried_over(last.info, first.info),
    }
    return StepResult(first.observation, last.reward, last.terminated, last.truncated, info)


def carried_over(last: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a finishing step's info that stay beside the info of the next reset.

    What the reset says itself wins, and a mask of the finished observation stays with that one.
    """
    return {
        key: value
        for key, value in last.items()
        if key not in first and key not in OBSERVATION_KEYS
    }


def said_by_reset(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the reset alone said, out of the info of a step that ended an episode."""
    names = takewhile(lambda key: key not in (FINAL_OBSERVATION, FINAL_INFO), info)
    return {key: info[key] for key in names}


def has_reset_itself(result: StepResult[Any]) -> bool:
    """Whether the env, or a layer of it, has begun the next episode already."""
    return FINAL_OBSERVATION in result.info
