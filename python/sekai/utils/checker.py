"""Environment checker `check_env`: a tool for tests, not for production."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from sekai.utils.causality import check_causal
from sekai.utils.determinism_checks import (
    check_aliasing,
    check_async_path,
    check_close,
    check_options,
    check_other_seeds,
    check_results_unchanged,
    check_same_seed,
    check_state,
    check_step_after_end,
    check_unseeded,
)
from sekai.utils.findings import Report
from sekai.utils.result_checks import (
    check_agent_results,
    check_agents,
    check_masks,
    check_result,
    check_samples,
    check_spaces,
    check_spaces_unchanged,
    spaces_of,
)
from sekai.utils.rollout import CheckedMultiAgentEnv, CheckRun, checked_env, play

__all__ = ["check_causal", "check_env"]

Check = Callable[[CheckRun], object]


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
    """Check an environment and return its problems.

    The env is played several times with random actions. An exception of the env becomes an error in
    the list. Afterwards it needs a reset; the state of its wrappers is restored.

    Args:
        env: a `sekai.Env` or a `MultiAgentEnv`, with or without wrappers.
        n_steps: number of steps of each run.
        warn_on_anomaly: include warnings.
        check_obs_space: check that observations are in their space.
        check_action_space: check that samples of the action space are in it.
        check_reset_seed: check that the seed determines the episode, and matters if the env is
            random.
        seed: seed of the main run; other runs use the following ones.
        check_async: check that async and sync methods agree.
        check_copies: check that results are copies, and that actions are copied.
        check_saving: check that `state_dict` restores the env.

    Returns:
        Lines that begin with `ERROR:` or `WARNING:`; an empty list if there are none.
    """
    if n_steps < 1:
        raise ValueError(f"n_steps must be at least 1, got {n_steps}")
    report = Report()
    with_first_run: list[Check] = [check_masks, check_options, check_step_after_end, check_close]
    with_repeats: list[Check] = []
    if check_copies:
        with_first_run.append(check_results_unchanged)
        with_repeats.append(check_aliasing)
    if check_async:
        with_repeats.append(check_async_path)
    if check_saving:
        with_repeats.append(check_state)

    def examine() -> None:
        run = CheckRun(checked_env(env), report, n_steps, seed)
        try:
            _play_first(run, check_obs_space, check_action_space)
            _run(run, with_first_run)
            if _is_repeatable(run, check_reset_seed):
                _run(run, with_repeats)
        finally:
            run.checked.wrapper_states.restore_originals()

    report.guarded(examine)
    return report.lines(warn_on_anomaly)


def _run(run: CheckRun, checks: list[Check]) -> None:
    for check in checks:
        run.report.guarded(partial(check, run))


def _play_first(run: CheckRun, check_obs_space: bool, check_action_space: bool) -> None:
    """Play the reference run and check each of its results."""
    checked = run.checked
    check_spaces(run)
    if isinstance(checked, CheckedMultiAgentEnv):
        check_agents(run)
    if check_action_space:
        check_samples(run)
    spaces = spaces_of(run)
    for event in play(checked, run.seed, run.n_steps, run.seed):
        run.events.append(event)
        check_result(run, event, check_obs_space)
        if isinstance(checked, CheckedMultiAgentEnv):
            check_agent_results(run, event, checked.acting())
    check_spaces_unchanged(run, spaces)


def _is_repeatable(run: CheckRun, is_requested: bool) -> bool:
    """Return True if runs can be compared; report the reason if not and `is_requested`."""
    if run.env.spec is not None and run.env.spec.nondeterministic:
        return False
    # Findings that were not requested go to a report that is discarded.
    report = run.report if is_requested else Report()
    seen = dataclasses.replace(run, report=report)
    is_repeatable = False

    def examine() -> None:
        nonlocal is_repeatable
        is_repeatable = check_same_seed(seen)
        if is_repeatable and is_requested and check_other_seeds(seen):
            check_unseeded(seen)

    report.guarded(examine)
    return is_repeatable
