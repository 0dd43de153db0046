"""An evaluation as a table: plain text for logs, rich for terminals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sekai.evaluation.evaluation import Comparison, Evaluation, Interval

__all__ = ["rich_table", "text_table"]

USUAL = ("total_return", "sharpe", "max_drawdown", "turnover", "cost", "episode_return")
"""What is shown beside the headline where it is known."""


def text_table(evaluation: Evaluation) -> str:
    """The policies, how far the agent is ahead, and what to know before believing it."""
    header, *rows = _rows(evaluation)
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    lines = [
        _title(evaluation),
        "",
        *(
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (header, ["-" * width for width in widths], *rows)
        ),
    ]
    if evaluation.flags:
        lines += ["", *(f"{one.level}: {one.name}: {one.message}" for one in evaluation.flags)]
    return "\n".join(lines)


def rich_table(evaluation: Evaluation) -> Any:
    """The same as a table of rich."""
    from rich.table import Table

    header, *rows = _rows(evaluation)
    table = Table(title=_title(evaluation))
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place == 0 else "right")
    for place, row in enumerate(rows):
        table.add_row(*row, style="bold" if place == 0 else None)
    return table


def _title(evaluation: Evaluation) -> str:
    count = len(evaluation.seeds)
    episodes = "1 episode" if count == 1 else f"{count} episodes"
    order = "higher" if evaluation.higher_is_better else "lower"
    return (
        f"{evaluation.name} on {evaluation.env}: {episodes}, ranked by {evaluation.headline} "
        f"({order} is better)"
    )


def _rows(evaluation: Evaluation) -> list[list[str]]:
    shown = [one for one in USUAL if one != evaluation.headline]
    shown = [one for one in shown if one in evaluation.agent.metrics]
    level = evaluation.agent.metrics[evaluation.headline].level
    ahead = {one.baseline: one for one in evaluation.comparisons}
    header = [
        "policy",
        evaluation.headline,
        f"{level:.0%} interval",
        "agent ahead by",
        "p (Holm)",
        *shown,
    ]
    rows = [header]
    for name, policy in evaluation.policies.items():
        headline = policy.metrics[evaluation.headline]
        rows.append([
            name, _number(headline.value), _bounds(headline), *_lead(ahead.get(name)),
            *(_number(policy.metrics[one].value) if one in policy.metrics else "" for one in shown),
        ])  # fmt: skip
    return rows


def _lead(comparison: Comparison | None) -> tuple[str, str]:
    if comparison is None:
        return "", ""
    difference = comparison.difference
    return f"{_number(difference.value)} {_bounds(difference)}", _number(comparison.p_value)


def _bounds(interval: Interval) -> str:
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "[unknown]"
    return f"[{_number(interval.low)}, {_number(interval.high)}]"


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4g}"
