"""Policies that need no learning: what an agent has to beat, through the same env and costs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sekai.evaluation.players import Player, player_of

__all__ = ["baseline", "baseline_names", "register_baseline"]

ANY = ""
PORTFOLIO, TRADING, MAKING = "portfolio", "trading", "market_making"
EXECUTION, ORDERS = "execution", "order_execution"

HERE = "sekai.evaluation.baselines"
BUILT_IN: dict[tuple[str, str], str] = {
    (ANY, "random"): "whatever:Random",
    (ANY, "idle"): "whatever:Idle",
    (ANY, "last_action"): "whatever:LastAction",
    (PORTFOLIO, "equal_weight"): "equal_weight:EqualWeight",
    (PORTFOLIO, "buy_and_hold"): "buy_and_hold:BuyAndHold",
    (PORTFOLIO, "minimum_variance"): "minimum_variance:MinimumVariance",
    (PORTFOLIO, "risk_parity"): "risk_parity:RiskParity",
    (PORTFOLIO, "momentum"): "momentum:Momentum",
    (TRADING, "hold"): "trading_rules:Hold",
    (TRADING, "always_long"): "trading_rules:AlwaysLong",
    (TRADING, "momentum"): "trading_rules:TrendFollowing",
    (TRADING, "mean_reversion"): "trading_rules:MeanReversion",
    (MAKING, "constant_quotes"): "quotes:ConstantQuotes",
    (MAKING, "wide_quotes"): "quotes:WideQuotes",
    (MAKING, "optimal_quotes"): "quotes:OptimalQuotes",
    (EXECUTION, "twap"): "schedules:TimeWeighted",
    (EXECUTION, "all_at_once"): "schedules:AllAtOnce",
    (EXECUTION, "almgren_chriss"): "schedules:AlmgrenChrissSchedule",
    (ORDERS, "twap"): "orders:twap",
    (ORDERS, "vwap"): "orders:vwap",
    (ORDERS, "almgren_chriss"): "orders:almgren_chriss",
    (ORDERS, "all_at_once"): "orders:all_at_once",
}

_OWN: dict[tuple[str, str], Callable[[], Any]] = {}


def register_baseline(
    name: str, factory: Callable[[], Any], *, task: str = ANY, force: bool = False
) -> None:
    """Let `evaluate` know a baseline by name.

    Args:
        name: what it is called.
        factory: makes whatever `evaluate` can judge, called anew for each evaluation.
        task: the task that it is for, such as "portfolio"; all of them if not given.
        force: whether one that is there is replaced.
    """
    if not force and ((task, name) in _OWN or (task, name) in BUILT_IN):
        raise ValueError(f"{name!r} is a baseline already: give another name, or force=True")
    _OWN[task, name] = factory


def baseline_names(task: str) -> list[str]:
    """The names of all baselines that fit a task."""
    known = [*BUILT_IN, *_OWN]
    return sorted({name for of_task, name in known if of_task in (task, ANY)})


def baseline(name: str, task: str) -> Player:
    """A baseline by name.

    Raises:
        ValueError: none is called so.
    """
    for key in ((task, name), (ANY, name)):
        if key in _OWN:
            return player_of(_OWN[key](), name)
        if key in BUILT_IN:
            module, _, attribute = BUILT_IN[key].partition(":")
            found: Player = getattr(importlib.import_module(f"{HERE}.{module}"), attribute)()
            return found
    raise ValueError(
        f"a baseline among {', '.join(baseline_names(task))} was wanted, found {name!r}"
    )
