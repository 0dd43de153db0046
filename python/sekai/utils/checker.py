"""Examines an environment and tells what is wrong with it: a tool for tests, not for production."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from sekai.utils.causality import check_causal
from sekai.utils.checks.agents import check_names, check_shares
from sekai.utils.checks.aliasing import check_kept_results, check_written_results
from sekai.utils.checks.async_path import check_async_path
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.masks import check_masks
from sekai.utils.checks.order import check_close, check_options, check_step_after_end
from sekai.utils.checks.report import Report
from sekai.utils.checks.results import check_result
from sekai.utils.checks.rollout import play
from sekai.utils.checks.seeding import check_other_seeds, check_same_seed, check_unseeded
from sekai.utils.checks.spaces import (
    check_samples,
    check_spaces,
    check_spaces_stay,
    spaces_of,
)
from sekai.utils.checks.state import check_state
from sekai.utils.checks.subject import AgentsSubject, subject_of

__all__ = ["check_causal", "check_env"]

Check = Callable[[Inspection], object]


def check_env(
    env: Any,
    n_steps: int = 100,
    warn_on_anomaly: bool = True,
    check_obs_space: bool = True,
    check_action_space: bool = True,
    check_reset_seed: bool = True,
    *,
    seed: int = 0,
    check_async: bool = True,
    check_copies: bool = True,
    check_saving: bool = True,
) -> list[str]:
    """What is wrong with `env`: lines that begin with `ERROR:` or `WARNING:`; none if all is well.

    The env is played several times over with random actions. Whatever it raises becomes an error
    in the list. Afterwards it needs a reset; what its wrappers had learned is as it was.

    Args:
        env: a `sekai.Env` or a `MultiAgentEnv`, with or without wrappers.
        n_steps: how many steps each run has.
        warn_on_anomaly: whether warnings are in the list.
        check_obs_space: whether observations must belong to their space.
        check_action_space: whether samples of the action space must belong to it.
        check_reset_seed: whether the seed must decide, and matter where the env is random.
        seed: the seed of the main run; others follow it.
        check_async: whether the async methods must agree with the sync ones.
        check_copies: whether results must be copies, and actions be copied.
        check_saving: whether `state_dict` must bring the env back to where it was.
    """
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1 step, was {n_steps}")
    report = Report()
    with_first_run: list[Check] = [check_masks, check_options, check_step_after_end, check_close]
    with_repeats: list[Check] = []
    if check_copies:
        with_first_run.append(check_kept_results)
        with_repeats.append(check_written_results)
    if check_async:
        with_repeats.append(check_async_path)
    if check_saving:
        with_repeats.append(check_state)

    def examine() -> None:
        inspection = Inspection(subject_of(env), report, n_steps, seed)
        try:
            _play_first(inspection, check_obs_space, check_action_space)
            _run(inspection, with_first_run)
            if _is_repeatable(inspection, check_reset_seed):
                _run(inspection, with_repeats)
        finally:
            inspection.subject.layers.give_back()

    report.guarded(examine)
    return report.lines(warn_on_anomaly)


def _run(inspection: Inspection, checks: list[Check]) -> None:
    for check in checks:
        inspection.report.guarded(partial(check, inspection))


def _play_first(inspection: Inspection, check_obs_space: bool, check_action_space: bool) -> None:
    """Make the run that the others are compared with, and check each of its results."""
    subject = inspection.subject
    check_spaces(inspection)
    if isinstance(subject, AgentsSubject):
        check_names(inspection)
    if check_action_space:
        check_samples(inspection)
    spaces = spaces_of(inspection)
    for event in play(subject, inspection.seed, inspection.n_steps, inspection.seed):
        inspection.events.append(event)
        check_result(inspection, event, check_obs_space)
        if isinstance(subject, AgentsSubject):
            check_shares(inspection, event, subject.acting())
    check_spaces_stay(inspection, spaces)


def _is_repeatable(inspection: Inspection, is_wanted: bool) -> bool:
    """Whether runs can be compared at all; if it is wanted that they can, says why not."""
    if inspection.env.spec is not None and inspection.env.spec.nondeterministic:
        return False
    # Unwanted findings go where nobody reads them.
    report = inspection.report if is_wanted else Report()
    seen = dataclasses.replace(inspection, report=report)
    is_repeatable = False

    def examine() -> None:
        nonlocal is_repeatable
        is_repeatable = check_same_seed(seen)
        if is_repeatable and is_wanted and check_other_seeds(seen):
            check_unseeded(seen)

    report.guarded(examine)
    return is_repeatable
