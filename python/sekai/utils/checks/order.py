"""Checks the calls at the edges of an episode: options, a step too many, and close."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sekai.core.env import Env
from sekai.core.layer import Layer
from sekai.core.multi_agent import MultiAgentEnv
from sekai.error import SekaiError
from sekai.utils.checks.inspection import Inspection
from sekai.utils.checks.report import CheckStopped, described
from sekai.utils.checks.rollout import replay
from sekai.utils.checks.snapshot import snapshot

__all__ = ["check_close", "check_options", "check_step_after_end"]


def check_options(inspection: Inspection) -> None:
    """`reset` takes options, and neither seed nor options must be given."""
    inspection.subject.reset(seed=inspection.seed, options={})
    inspection.subject.reset(options=None)


def check_step_after_end(inspection: Inspection) -> None:
    """A step after the end of an episode works, or is refused in words."""
    ends = [number for number, event in enumerate(inspection.events) if event.ends_episode]
    if not ends:
        return
    events = inspection.events[: ends[0] + 1]
    for _ in replay(inspection.subject, events):
        pass
    _expect_words(
        inspection,
        "step() after the end of an episode",
        lambda: inspection.env.step(snapshot(events[-1].action)),
    )


def check_close(inspection: Inspection) -> None:
    """`close` may come twice, and what comes after it works or is refused in words.

    All this is done to a copy: those who check an env may want to use it afterwards.
    """
    if not any(map(_has_own_close, inspection.env)):
        return
    try:
        doomed = copy.deepcopy(inspection.env)
    except Exception:
        # It holds what cannot be copied, and closing the env itself would take it away.
        return
    for call in ("close()", "close() a second time"):
        _close(doomed, call)
    step = next(event for event in inspection.events if not event.is_reset)
    _expect_words(inspection, "step() after close()", lambda: doomed.step(snapshot(step.action)))


def _close(env: Any, call: str) -> None:
    try:
        env.close()
    except Exception as error:
        raise CheckStopped(f"{call} raised {described(error)}") from error


def _expect_words(inspection: Inspection, moment: str, call: Callable[[], object]) -> None:
    try:
        call()
    except (SekaiError, Warning):
        # A warning that is raised as an error has words of its own.
        pass
    except Exception as error:
        inspection.report.warn(
            moment,
            f"{moment} raised {described(error)}; sekai.error.ResetRequired or ClosedError would "
            f"say what to do (the wrapper OrderEnforcing raises them)",
        )


def _has_own_close(layer: Any) -> bool:
    return type(layer).close not in (Env.close, Layer.close, MultiAgentEnv.close)
