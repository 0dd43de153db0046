"""Baselines: policies without training, run in the same env with the same costs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sekai.error import SekaiError
from sekai.evaluation.policy import Policy, as_policy
from sekai.storage.names import close_matches, suggestion

__all__ = [
    "IncompatibleBaselineError",
    "baseline",
    "baseline_names",
    "register_baseline",
    "unknown_baseline",
]

ANY = ""
BUILT_IN: dict[tuple[str, str], str] = {
    (ANY, "random"): "generic:Random",
    (ANY, "idle"): "generic:Idle",
    (ANY, "last_action"): "generic:LastAction",
    ("portfolio", "equal_weight"): "portfolio:EqualWeight",
    ("portfolio", "buy_and_hold"): "portfolio:BuyAndHold",
    ("portfolio", "minimum_variance"): "portfolio:MinimumVariance",
    ("portfolio", "risk_parity"): "portfolio:RiskParity",
    ("portfolio", "momentum"): "portfolio:Momentum",
    ("trading", "hold"): "trading:Hold",
    ("trading", "always_long"): "trading:AlwaysLong",
    ("trading", "momentum"): "trading:TrendFollowing",
    ("trading", "mean_reversion"): "trading:MeanReversion",
    ("market_making", "constant_quotes"): "trading:ConstantQuotes",
    ("market_making", "wide_quotes"): "trading:WideQuotes",
    ("market_making", "optimal_quotes"): "trading:OptimalQuotes",
    ("execution", "twap"): "execution:TWAPSchedule",
    ("execution", "all_at_once"): "execution:ImmediateExecution",
    ("execution", "almgren_chriss"): "execution:AlmgrenChrissSchedule",
    ("order_execution", "twap"): "execution:twap",
    ("order_execution", "vwap"): "execution:vwap",
    ("order_execution", "almgren_chriss"): "execution:almgren_chriss",
    ("order_execution", "all_at_once"): "execution:all_at_once",
    ("basket_execution", "twap"): "execution:twap",
    ("basket_execution", "vwap"): "execution:vwap",
    ("basket_execution", "all_at_once"): "execution:all_at_once",
}
"""Module and factory of each baseline, by task and name."""

_REGISTERED: dict[tuple[str, str], Callable[[], Any]] = {}


class IncompatibleBaselineError(SekaiError, ValueError):
    """A baseline cannot run in this env; `evaluate` leaves a default one out and flags it."""


def register_baseline(
    name: str, factory: Callable[[], Any], *, task: str = ANY, force: bool = False
) -> None:
    """Register a baseline for `evaluate`.

    Args:
        name: name of the baseline.
        factory: returns anything that `evaluate` takes as a policy; called once per evaluation.
        task: task of the baseline, such as "portfolio"; all tasks by default.
        force: replace an existing baseline of this name.
    """
    if not force and ((task, name) in _REGISTERED or (task, name) in BUILT_IN):
        raise ValueError(f"baseline {name!r} exists already; use another name or force=True")
    _REGISTERED[task, name] = factory


def baseline_names(task: str) -> list[str]:
    """Names of all baselines for a task."""
    return sorted({name for own, name in [*BUILT_IN, *_REGISTERED] if own in (task, ANY)})


def baseline(name: str, task: str) -> Policy:
    """Make a baseline by name.

    Raises:
        ValueError: there is no such baseline.
    """
    for key in ((task, name), (ANY, name)):
        if key in _REGISTERED:
            return as_policy(_REGISTERED[key](), name)
        if key in BUILT_IN:
            module, _, attribute = BUILT_IN[key].partition(":")
            policy: Policy = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)()
            return policy
    raise unknown_baseline(name, task)


def unknown_baseline(name: str, task: str) -> ValueError:
    """Error that lists the baselines of a task, and the tasks that have the one asked for."""
    known = baseline_names(task)
    others = sorted({own for own, known_name in [*BUILT_IN, *_REGISTERED] if known_name == name})
    reason = f"; it is a baseline of the tasks {', '.join(others)}" if others else ""
    hint = suggestion(close_matches(name, known))
    return ValueError(
        f"unknown baseline {name!r} for the task {task!r}{reason}{hint}; expected one of "
        f"{', '.join(known)}"
    )
