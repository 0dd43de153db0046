"""Summary of an evaluation on the terminal: a table of policies, warnings and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from sekai.cli.screen import say, show_table, sparkline
from sekai.experiment.index_page import best_baseline, mean_growth
from sekai.experiment.run_folder import RunFolder

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation, Interval, PolicyOutcome, WalkForwardEvaluation
    from sekai.experiment.seeds import SeedsResult

OTHER_METRICS = ("total_return", "max_drawdown", "turnover", "cost")
"""Metrics beside the headline, in order of preference."""

CURVE_WIDTH = 24
"""Maximum number of bars of an equity curve."""

MAX_METRICS = 3
"""Maximum number of metrics, the headline included."""


def show_summary(evaluation: Evaluation, run: RunFolder, report: Path | None) -> None:
    """Print an agent beside its baselines, the warning flags and the files of the run."""
    _show_policies(evaluation)
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
        trials = f"{sharpe.trials} trial{'' if sharpe.trials == 1 else 's'} on this data"
        skill = f"{sharpe.deflated:.0%} probability of skill after {trials}"
        invalid = f"not stated after {trials}, because the results are invalid"
        say(f"deflated Sharpe ratio: {skill if sharpe.is_valid else invalid}")
    say(f"\nrun     {run.path}")
    say(f"report  {report}" if report is not None else f"numbers {run.evaluation}")


def show_walk_forward(folds: WalkForwardEvaluation, run: RunFolder) -> None:
    """Print the folds of a walk-forward evaluation, and all test rows as one account."""
    joined = folds.joined
    rows = []
    for number, (fold, (trained, tested)) in enumerate(zip(folds.folds, folds.rows, strict=True)):
        times = fold.agent.episodes[0].times
        period = "" if times is None else f"{times[0]!s:.10} to {times[-1]!s:.10}"
        best = _best_baseline(fold)
        own = interval_text(fold.agent.metrics[fold.headline])
        rows.append((str(number + 1), f"{trained:,}", f"{tested:,}", period, own, best))
    columns = ("fold", ">training rows", ">test rows", "test period", f">{joined.headline}")
    say("\nwalk-forward, an agent trained for each fold")
    show_table((*columns, ">best baseline"), rows)
    _show_policies(joined)
    say(f"all test rows as one account; numbers {run.walk_forward}")


def show_seeds(result: SeedsResult) -> None:
    """Print the agent of each training seed, and the median and mean over them."""
    first = next(iter(result.evaluations.values()))
    names, curves = _metrics(first), {}
    for seed, evaluation in result.evaluations.items():
        curves[str(seed)] = mean_growth(evaluation.agent)
    drawn = _sparklines(curves)
    rows: list[list[str | Text]] = [
        [
            str(seed),
            *(interval_text(found.agent.metrics[name]) for name in names),
            _best_baseline(found),
            drawn[str(seed)],
        ]
        for seed, found in result.evaluations.items()
    ]
    median = [_number(result.median(name), 3) for name in names]
    mean = [interval_text(result.interval(name)) for name in names]
    rows.append([Text(cell, "bold") for cell in ("median", *median, "", "")])
    rows.append([Text(cell, "bold") for cell in ("mean", *mean, "", "")])
    say()
    show_table(("seed", *(f">{name}" for name in names), ">best baseline", "equity"), rows)
    say(
        f"in brackets: {first.agent.metrics[result.metric].level:.0%} confidence intervals, of a "
        f"seed over unseen episodes, of the mean over {len(rows) - 2} training seeds"
    )
    ahead = [
        f"{name} {result.ahead_of(name)} of {len(result.evaluations)}" for name in first.baselines
    ]
    say(f"seeds significantly ahead of: {', '.join(ahead)}")
    say(f"\nruns    {result.path}")
    if result.report is not None:
        say(f"report  {result.report}")


def interval_text(interval: Interval) -> str:
    """Estimate with its confidence interval."""
    if math.isnan(interval.value):
        return "-"
    if math.isnan(interval.low):
        return f"{_number(interval.value, 3)} [{interval.reason or 'unknown'}]"
    low, high = _number(interval.low, 2), _number(interval.high, 2)
    return f"{_number(interval.value, 3)} [{low}, {high}]"


def _number(value: float, digits: int) -> str:
    return f"{value:,.0f}" if 100 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def _metrics(evaluation: Evaluation) -> list[str]:
    known = evaluation.agent.metrics
    others = [name for name in OTHER_METRICS if name in known and name != evaluation.headline]
    shown = [name for name in others if not math.isnan(known[name].value)]
    return [evaluation.headline, *shown[: MAX_METRICS - 1]]


def _show_policies(evaluation: Evaluation) -> None:
    names = _metrics(evaluation)
    columns = ["policy", *(f">{name}" for name in names), ">ahead by", ">p"]
    curves = _sparklines({name: mean_growth(each) for name, each in evaluation.policies.items()})
    rows = [
        _row(outcome, names, evaluation, curves[name])
        for name, outcome in evaluation.policies.items()
    ]
    say()
    show_table([*columns, "equity"] if any(curves.values()) else columns, rows)


def _sparklines(curves: dict[str, list[float]]) -> dict[str, str]:
    """Equity curves as text, on one scale, which leaves out that of random actions."""
    values = [value for name, curve in curves.items() if name != "random" for value in curve]
    if not values:
        return dict.fromkeys(curves, "")
    low, high = min(values), max(values)
    return {name: sparkline(curve, low, high, CURVE_WIDTH) for name, curve in curves.items()}


def _best_baseline(evaluation: Evaluation) -> str:
    """Name and headline metric of the best baseline."""
    name = best_baseline(evaluation)
    if name is None:
        return "-"
    return f"{name} {_number(evaluation.policies[name].metrics[evaluation.headline].value, 3)}"


def _row(
    outcome: PolicyOutcome, names: list[str], evaluation: Evaluation, curve: str
) -> list[str | Text]:
    comparisons = {comparison.baseline: comparison for comparison in evaluation.comparisons}
    comparison = comparisons.get(outcome.name)
    difference = "" if comparison is None else interval_text(comparison.difference)
    p_value = "" if comparison is None else f"{comparison.p_value:.2g}"
    metrics = [
        interval_text(outcome.metrics[name]) if name in outcome.metrics else "-" for name in names
    ]
    style = "bold" if outcome.name == evaluation.agent.name else ""
    cells = [Text(cell, style) for cell in (outcome.name, *metrics, difference, p_value)]
    return [*cells, curve] if curve else [*cells]
