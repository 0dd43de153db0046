"""Checks what resets and steps gave: observation, reward, flags and info."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sekai.utils.checks.inspection import Inspection, whose
from sekai.utils.checks.observations import form_mismatch, has_nan
from sekai.utils.checks.report import Report
from sekai.utils.checks.rollout import Event

__all__ = ["check_result"]

NUMBERS = (int, float, np.integer, np.floating)
FLAGS = (bool, np.bool_)


def check_result(inspection: Inspection, event: Event, check_obs_space: bool) -> None:
    """Everything in one result is of its type, and the observation belongs to its space."""
    spaces = inspection.subject.observation_spaces()
    for agent, part in inspection.subject.parts(event.result).items():
        where = f"{whose(agent)} at {event.label}"
        if check_obs_space and "observation" in part and agent in spaces:
            _check_observation(inspection.report, spaces[agent], part["observation"], where)
        if "reward" in part:
            _check_reward(inspection.report, part["reward"], where)
        for name in ("terminated", "truncated"):
            if name in part and not isinstance(part[name], FLAGS):
                found = _shown(part[name])
                inspection.report.error(name, f"{name}{where} must be a bool, was {found}")
        if not isinstance(part.get("info", {}), dict):
            inspection.report.error(
                "info", f"info{where} must be a dict, was {_shown(part['info'])}"
            )


def _check_observation(report: Report, space: Any, observation: Any, where: str) -> None:
    # In this order: a value of the wrong form cannot be asked whether it is within bounds.
    reason = form_mismatch(space, observation)
    if reason is not None:
        report.error("form", f"the observation{where} does not fit observation_space: {reason}")
    elif has_nan(observation):
        report.error("nan", f"the observation{where} contains NaN")
    else:
        reason = space.mismatch(observation)
        if reason is not None:
            report.warn("outside", f"the observation{where} is outside observation_space: {reason}")


def _check_reward(report: Report, reward: Any, where: str) -> None:
    if isinstance(reward, bool) or not isinstance(reward, NUMBERS):
        report.error("reward", f"the reward{where} must be a float, was {_shown(reward)}")
    elif not math.isfinite(reward):
        report.error("finite", f"the reward{where} must be finite, was {float(reward)}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 60 else f"{text[:57]}..."
