"""What came of an agent, in a table and a few lines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from sekai.cli.runs.run_folder import RunFolder
from sekai.cli.screen import say, show_table

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation, Interval, PolicyOutcome

__all__ = ["interval_text", "show_summary"]

BESIDE = ("total_return", "max_drawdown", "turnover", "cost")
"""Metrics that are shown beside the headline, as far as there is room and they are known."""

SHOWN = 3
"""Metrics at most, the headline included."""


def show_summary(evaluation: Evaluation, run: RunFolder, report: Path | None) -> None:
    """Show an agent beside its baselines, what should be known of it, and where the rest is."""
    names = _metrics(evaluation)
    columns = ("policy", *(f">{name}" for name in names), ">ahead by", ">p")
    rows = [_row(one, names, evaluation) for one in evaluation.policies.values()]
    say()
    show_table(columns, rows)
    level = next(iter(evaluation.agent.metrics.values())).level
    say(f"in brackets: {level:.0%} intervals; {len(evaluation.seeds)} episodes of {evaluation.env} "
        f"that were never seen; ranked by {evaluation.headline}; p is adjusted for "
        f"{len(evaluation.comparisons)} baselines by Holm's method")  # fmt: skip
    for flag in evaluation.flags:
        style = "bold red" if flag.level == "error" else "yellow"
        say(Text.assemble((f"{flag.level}: ", style), f"{flag.name}: {flag.message}"))
    if evaluation.honesty is not None:
        honesty = evaluation.honesty
        trials = "1 trial" if honesty.trials == 1 else f"{honesty.trials} trials"
        say(f"chance that the Sharpe ratio is more than luck: {honesty.deflated:.0%}, "
            f"after {trials} on this data")  # fmt: skip
    say(f"\nrun     {run.path}")
    say(f"report  {report}" if report is not None else f"numbers {run.evaluation}")


def interval_text(interval: Interval) -> str:
    """A number with its bounds."""
    if math.isnan(interval.value):
        return "-"
    if math.isnan(interval.low):
        return _number(interval.value, 3)
    low, high = _number(interval.low, 2), _number(interval.high, 2)
    return f"{_number(interval.value, 3)} [{low}, {high}]"


def _number(value: float, digits: int) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def _metrics(evaluation: Evaluation) -> list[str]:
    known = evaluation.agent.metrics
    beside = [name for name in BESIDE if name in known and name != evaluation.headline]
    told = [name for name in beside if not math.isnan(known[name].value)]
    return [evaluation.headline, *told[: SHOWN - 1]]


def _row(outcome: PolicyOutcome, names: list[str], evaluation: Evaluation) -> list[str | Text]:
    is_agent = outcome.name == evaluation.agent.name
    compared = {one.baseline: one for one in evaluation.comparisons}.get(outcome.name)
    ahead = "" if compared is None else interval_text(compared.difference)
    chance = "" if compared is None else f"{compared.p_value:.2g}"
    numbers = [
        interval_text(outcome.metrics[name]) if name in outcome.metrics else "-" for name in names
    ]
    style = "bold" if is_agent else ""
    return [Text(one, style) for one in (outcome.name, *numbers, ahead, chance)]
