"""`sekai check`: whether an env keeps the rules."""

from __future__ import annotations

from typing import Annotated

import typer

from sekai.cli.failure import FAILED, guarded
from sekai.cli.named_env import made_env
from sekai.cli.screen import say

__all__ = ["EXAMPLES", "check"]

EXAMPLES = ("sekai check Trading-v0", "sekai check my_envs:MyEnv --steps 500")


@guarded
def check(
    env: Annotated[str, typer.Argument(help="An id, or module:Class of an env of your own.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the main run.")] = 0,
    warnings: Annotated[
        bool, typer.Option("--warnings/--no-warnings", help="Whether warnings count.")
    ] = True,
) -> None:
    """Play an env and look for what breaks the rules; exit code 1 if anything was found."""
    from sekai.utils.checker import check_env

    with made_env(env) as made:
        findings = check_env(made, steps, warnings, seed=seed)
    for line in findings:
        say(line)
    if findings:
        raise typer.Exit(FAILED)
    say(f"{env}: nothing found in runs of {steps} steps")
