"""`sekai report`: write the HTML report of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.options import RunsOption
from sekai.cli.screen import say
from sekai.experiment.run_folder import DEFAULT_ROOT, RunFolder, find_run

if TYPE_CHECKING:
    from sekai.evaluation import Evaluation

EXAMPLES = (
    "sekai report demo",
    "sekai report demo demo-2 --output comparison.html",
    "sekai report demo --pictures pictures",
)


@guarded
def report(
    run: Annotated[list[str], typer.Argument(help="Names of runs, or their folders.")],
    output: Annotated[
        Path | None, typer.Option(help="The HTML file; by default in the run folder.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Folder for charts of the first run as PNG.")
    ] = None,
    runs: RunsOption = DEFAULT_ROOT,
) -> None:
    """Write the report of one run, or a comparison of several, as an HTML page."""
    from sekai.evaluation.report import write_pictures, write_report

    folders = [find_run(name, runs) for name in run]
    evaluations = [load_run_evaluation(folder, folder.evaluation) for folder in folders]
    default = folders[0].report if len(folders) == 1 else runs / "comparison.html"
    say(str(write_report(evaluations, output or default)))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for file in write_pictures(evaluations[0], pictures):
            say(str(file))


def load_run_evaluation(folder: RunFolder, file: Path) -> Evaluation:
    """Evaluation of a run: that of its policy, or of all folds; an error says how to get it.

    Args:
        folder: the run.
        file: `folder.evaluation` or `folder.walk_forward`.
    """
    from sekai.evaluation.evaluation_file import EvaluationFileError, load_evaluation

    option = " --walk-forward" if file == folder.walk_forward else ""
    command = f"`sekai evaluate {folder.name}{option}`"
    if not file.is_file():
        raise CommandError(f"{folder.path} has no evaluation; run {command} first")
    try:
        return load_evaluation(file)
    except EvaluationFileError as error:
        raise CommandError(f"{error}; {command} evaluates it again") from error
