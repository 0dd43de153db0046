"""`sekai compare`: paired difference between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import RunsOption
from sekai.cli.report import load_run_evaluation
from sekai.cli.screen import say, show_table
from sekai.cli.summary import interval_text
from sekai.experiment.run_folder import DEFAULT_ROOT, RunFolder, find_run

EXAMPLES = (
    "sekai compare demo demo-2",
    "sekai compare demo demo-2 --metric max_drawdown",
    "sekai compare demo demo-2 --walk-forward",
)


@guarded
def compare(
    first: Annotated[str, typer.Argument(help="Name of a run, or its folder.")],
    second: Annotated[str, typer.Argument(help="Name of another run, or its folder.")],
    metric: Annotated[
        str | None, typer.Option(help="Metric to compare; the headline metric by default.")
    ] = None,
    walk_forward: Annotated[
        bool, typer.Option("--walk-forward", help="Compare the walk-forward evaluations.")
    ] = False,
    runs: RunsOption = DEFAULT_ROOT,
) -> None:
    """Compare two runs that were judged on the same dates or seeds, with a confidence interval.

    The runs may differ in algorithm, settings and features, but not in the judged rows.
    """
    from sekai.evaluation import compare as compare_evaluations

    folders = find_run(first, runs), find_run(second, runs)
    own, other = (load_run_evaluation(folder, _file(folder, walk_forward)) for folder in folders)
    try:
        result = compare_evaluations(own, other, metric=metric or own.headline)
    except ValueError as error:
        raise CommandError(f"{folders[0].name} and {folders[1].name}: {error}") from error
    rows = [
        (evaluation.name, interval_text(evaluation.agent.metrics[result.metric]))
        for evaluation in (own, other)
    ]
    show_table(("run", f">{result.metric}"), rows)
    verdict = {
        "first": f"{result.first} is better",
        "second": f"{result.second} is better",
        "inconclusive": "the difference is inconclusive",
    }[result.standing]
    say(
        f"\n{result.first} is ahead by {interval_text(result.interval)}, p {result.p_value:.2g}: "
        f"{verdict}"
    )
    unit = "dates" if result.paired_by == "dates" else "episodes with the same seeds"
    say(
        f"in brackets: {result.interval.level:.0%} confidence intervals; paired over "
        f"{result.pairs:,} {unit}; {result.first} is better in {result.wins:.0%} of episodes"
    )


def _file(folder: RunFolder, walk_forward: bool) -> Path:
    return folder.walk_forward if walk_forward else folder.evaluation
