"""The `sekai` command line application with all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from sekai.cli import (
    bench,
    check,
    compare,
    data,
    evaluate,
    info,
    list_envs,
    list_runs,
    paper,
    report,
    session,
    sweep,
    train,
    watch,
)
from sekai.cli.failure import show_tracebacks
from sekai.cli.screen import say

app = typer.Typer(
    name="sekai",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(lines: tuple[str, ...]) -> str:
    # Separate paragraphs: help joins neighbouring lines.
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in lines)])


def _show_version(requested: bool) -> None:
    if requested:
        import sekai

        say(f"sekai {sekai.__version__}")
        raise typer.Exit


@app.callback(epilog=_examples(("sekai list", "sekai train examples/demo.toml", "sekai runs")))
def global_options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train, evaluate and run trading agents.

    Exit codes: 0 success, 1 failure or problems found, 2 invalid arguments or an invalid file, 130
    interrupted.
    """
    show_tracebacks(debug)


def _add(
    to: typer.Typer, name: str, command: Callable[..., None], examples: tuple[str, ...]
) -> None:
    # One line per paragraph: the terminal wraps it.
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    to.command(name, help=text, epilog=_examples(examples))(command)


Commands = tuple[tuple[str, Callable[..., None], tuple[str, ...]], ...]

COMMANDS: Commands = (
    ("list", list_envs.list_envs, list_envs.EXAMPLES),
    ("info", info.info, info.EXAMPLES),
    ("check", check.check, check.EXAMPLES),
    ("bench", bench.bench, bench.EXAMPLES),
    ("train", train.train, train.EXAMPLES),
    ("sweep", sweep.sweep, sweep.EXAMPLES),
    ("evaluate", evaluate.evaluate, evaluate.EXAMPLES),
    ("compare", compare.compare, compare.EXAMPLES),
    ("report", report.report, report.EXAMPLES),
    ("runs", list_runs.list_runs, list_runs.EXAMPLES),
    ("paper", paper.paper, paper.EXAMPLES),
    ("watch", watch.watch, watch.EXAMPLES),
)

for name, command, examples in COMMANDS:
    _add(app, name, command, examples)

for group, module in (("data", data), ("session", session)):
    commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
    for name, command, examples in module.COMMANDS:
        _add(commands, name, command, examples)
    app.add_typer(commands, name=group, help=module.__doc__, epilog=_examples(module.EXAMPLES))
