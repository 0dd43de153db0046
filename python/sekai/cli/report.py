"""`sekai report`: what was judged, as a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.runs.run_folder import DEFAULT_ROOT, RunFolder, find_run
from sekai.cli.screen import say

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
        Path | None, typer.Option(help="The file; in the folder of the run if not given.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="A folder to draw pictures of the first run into, as PNG.")
    ] = None,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
) -> None:
    """Write the report of one run, or of several beside each other, as a page of HTML."""
    from sekai.evaluation.report import write_pictures, write_report

    folders = [find_run(one, runs) for one in run]
    for folder in folders:
        if not folder.evaluation.is_file():
            raise CommandError(f"{folder.path} was not judged yet: sekai evaluate {folder.name}")
    evaluations = [_judged(folder) for folder in folders]
    usual = folders[0].report if len(folders) == 1 else runs / "comparison.html"
    say(str(write_report(evaluations, output or usual)))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for file in write_pictures(evaluations[0], pictures):
            say(str(file))


def _judged(folder: RunFolder) -> Evaluation:
    from sekai.evaluation.evaluation_file import EvaluationFileError, load_evaluation

    try:
        return load_evaluation(folder.evaluation)
    except EvaluationFileError as error:
        raise CommandError(f"{error}; `sekai evaluate {folder.name}` judges it again") from error
