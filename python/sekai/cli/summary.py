"""Summary of an evaluation on the terminal: a table of policies, warnings and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from sekai.cli.screen import say, show_table
from sekai.experiment.run_folder import RunFolder

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation, Interval, PolicyOutcome

__all__ = ["interval_text", "show_summary"]

OTHER_METRICS = ("total_return", "max_drawdown", "turnover", "cost")
"""Metrics beside the headline, in order of preference."""

MAX_METRICS = 3
"""Maximum number of metrics, the headline included."""


def show_summary(evaluation: Evaluation, run: RunFolder, report: Path | None) -> None:
    """Print an agent beside its baselines, the warning flags and the files of the run."""
    names = _metrics(evaluation)
    columns = ("policy", *(f">{name}" for name in names), ">ahead by", ">p")
    rows = [_row(outcome, names, evaluation) for outcome in evaluation.policies.values()]
    say()
    show_table(columns, rows)
    level = next(iter(evaluation.agent.metrics.values())).level
    say(
        f"in brackets: {level:.0%} confidence intervals; {len(evaluation.seeds)} unseen episodes "
        f"of {evaluation.env}; ranked by {evaluation.headline}; p-values adjusted for "
        f"{len(evaluation.comparisons)} baselines by Holm's method"
    )
    for flag in evaluation.flags:
        style = "bold red" if flag.level == "error" else "yellow"
        say(Text.assemble((f"{flag.level}: ", style), f"{flag.name}: {flag.message}"))
    sharpe = evaluation.deflated_sharpe
    if sharpe is not None:
        trials = sharpe.trials
        say(
            f"deflated Sharpe ratio: {sharpe.deflated:.0%} probability of skill after "
            f"{trials} trial{'' if trials == 1 else 's'} on this data"
        )
    say(f"\nrun     {run.path}")
    say(f"report  {report}" if report is not None else f"numbers {run.evaluation}")


def interval_text(interval: Interval) -> str:
    """Estimate with its confidence interval."""
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
    others = [name for name in OTHER_METRICS if name in known and name != evaluation.headline]
    shown = [name for name in others if not math.isnan(known[name].value)]
    return [evaluation.headline, *shown[: MAX_METRICS - 1]]


def _row(outcome: PolicyOutcome, names: list[str], evaluation: Evaluation) -> list[str | Text]:
    comparisons = {comparison.baseline: comparison for comparison in evaluation.comparisons}
    comparison = comparisons.get(outcome.name)
    difference = "" if comparison is None else interval_text(comparison.difference)
    p_value = "" if comparison is None else f"{comparison.p_value:.2g}"
    metrics = [
        interval_text(outcome.metrics[name]) if name in outcome.metrics else "-" for name in names
    ]
    style = "bold" if outcome.name == evaluation.agent.name else ""
    return [Text(cell, style) for cell in (outcome.name, *metrics, difference, p_value)]
