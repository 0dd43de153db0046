"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[str, typer.Argument(help="Name of a run, or its folder.")]

RunsOption = Annotated[Path, typer.Option(envvar="SEKAI_RUNS", help="Folder of the runs.")]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Difference from the data of training to allow: bar_length, calendar, features or "
        "assets; repeatable.",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Set any key of the file; repeatable."),
]

ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Your module with envs, features or rewards of the run, or your experiment file that "
        "names them; repeatable.",
    ),
]

RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: auto for the running one, its address, or local for a new one.",
    ),
]
