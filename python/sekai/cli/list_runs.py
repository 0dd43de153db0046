"""`sekai runs`: list runs and their results."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from sekai.cli.failure import guarded
from sekai.cli.options import RunsOption
from sekai.cli.screen import note, say, show_table
from sekai.experiment.run_folder import (
    DEFAULT_ROOT,
    ExperimentError,
    RunFolder,
    find_run,
    runs_in,
)

EXAMPLES = ("sekai runs", "sekai runs demo", "sekai runs --html")

COLUMNS = ("run", "state", "env", "algorithm", ">steps", "headline", "created")


@guarded
def list_runs(
    name: Annotated[str | None, typer.Argument(help="Run to show in full.")] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write index.html, a page that compares all runs.")
    ] = False,
    runs: RunsOption = DEFAULT_ROOT,
) -> None:
    """List runs with their state, steps and headline metric."""
    if name is not None:
        _show_run(find_run(name, runs))
        return
    folders = runs_in(runs)
    if not folders:
        note(f"no runs in {runs} yet; start one with: sekai train examples/demo.toml")
        return
    if html:
        from sekai.experiment.index_page import write_index

        say(str(write_index(runs)))
        return
    show_table(COLUMNS, [_row(run) for run in folders])


def headline_text(headline: dict[str, Any] | None) -> str:
    """Headline metric with its confidence interval."""
    if not headline:
        return ""
    value, low, high = (float(headline[name]) for name in ("value", "low", "high"))
    mark = "" if headline.get("is_valid", True) else " (invalid)"
    return f"{headline['metric']} {value:.4g} [{low:.3g}, {high:.3g}]{mark}"


def _row(run: RunFolder) -> tuple[str, ...]:
    try:
        facts = run.facts
    except ExperimentError as error:
        return run.name, "unreadable", "", "", "", str(error), ""
    return (
        run.name,
        facts["state"],
        str(facts.get("env")),
        str(facts.get("algorithm")),
        f"{run.curve.last_steps():,}/{facts.get('planned_steps', 0):,}",
        headline_text(facts.get("headline")),
        str(facts.get("created", ""))[:16].replace("T", " "),
    )


def _show_run(run: RunFolder) -> None:
    facts = run.facts
    for key, value in facts.items():
        if value is not None and key != "summary":
            say(f"{key:14s} {headline_text(value) if key == 'headline' else _text(value)}")
    say(f"{'trained':14s} {run.curve.last_steps():,} steps")
    for file in (run.config, run.policy, run.evaluation, run.report):
        if file.is_file():
            say(f"{'file':14s} {file}")
    if facts["state"] in ("interrupted", "failed"):
        say(f"\nto continue: sekai train {run.path} --resume")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)
