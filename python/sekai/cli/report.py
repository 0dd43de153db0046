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

__all__ = ["EXAMPLES", "report"]

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
    for folder in folders:
        if not folder.evaluation.is_file():
            raise CommandError(
                f"{folder.path} has no evaluation; run `sekai evaluate {folder.name}` first"
            )
    evaluations = [_evaluation(folder) for folder in folders]
    default = folders[0].report if len(folders) == 1 else runs / "comparison.html"
    say(str(write_report(evaluations, output or default)))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for file in write_pictures(evaluations[0], pictures):
            say(str(file))


def _evaluation(folder: RunFolder) -> Evaluation:
    from sekai.evaluation.evaluation_file import EvaluationFileError, load_evaluation

    try:
        return load_evaluation(folder.evaluation)
    except EvaluationFileError as error:
        raise CommandError(f"{error}; `sekai evaluate {folder.name}` evaluates it again") from error
