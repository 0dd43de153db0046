"""`sekai check`: check that an env follows the API."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sekai.cli.failure import FAILED, CommandError, guarded
from sekai.cli.screen import say
from sekai.registry import make
from sekai.registry.entry_point import load

EXAMPLES = ("sekai check Trading-v0", "sekai check my_envs:MyEnv --steps 500")


@guarded
def check(
    env: Annotated[str, typer.Argument(help="Env id, or module:Class of your own env.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the main run.")] = 0,
    warnings: Annotated[
        bool, typer.Option("--warnings/--no-warnings", help="Report warnings too.")
    ] = True,
) -> None:
    """Run an env and check that it follows the API; exit code 1 if there are problems."""
    from sekai.utils.checker import check_env

    with _make_env(env) as instance:
        problems = check_env(instance, steps, warnings, seed=seed)
    for problem in problems:
        say(problem)
    if problems:
        raise typer.Exit(FAILED)
    say(f"{env}: no problems in runs of {steps} steps")


def _make_env(name: str) -> Any:
    """Env by id, or by a class or function `module:Class` without arguments."""
    if ":" not in name:
        return make(name)
    from sekai.experiment.references import add_working_folder

    folder = add_working_folder()
    try:
        entry = load(name)
    except (ImportError, ValueError) as error:
        raise CommandError(
            f"{error}; expected module:Class in {folder} or in an installed package"
        ) from error
    if not callable(entry):
        raise CommandError(f"{name} must be a class or a function that makes an env, got {entry!r}")
    return entry()
