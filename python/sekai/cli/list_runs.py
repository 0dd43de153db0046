"""`sekai runs`: what was trained, and what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sekai.cli.failure import CommandError, guarded
from sekai.cli.runs.run_folder import DEFAULT_ROOT, RunFolder, find_run, runs_in
from sekai.cli.screen import note, say, show_table

__all__ = ["EXAMPLES", "list_runs"]

EXAMPLES = ("sekai runs", "sekai runs demo")

COLUMNS = ("run", "state", "env", "algorithm", ">steps", "headline", "begun")


@guarded
def list_runs(
    name: Annotated[str | None, typer.Argument(help="A run to tell everything of.")] = None,
    runs: Annotated[
        Path, typer.Option(envvar="SEKAI_RUNS", help="Where runs are kept.")
    ] = DEFAULT_ROOT,
) -> None:
    """List runs with their state, their steps and what they came to."""
    if name is not None:
        _tell(find_run(name, runs))
        return
    found = runs_in(runs)
    if not found:
        note(f"nothing was trained in {runs} yet: sekai train examples/demo.toml")
        return
    show_table(COLUMNS, [_row(run) for run in found])


def _row(run: RunFolder) -> tuple[str, ...]:
    try:
        facts = run.facts
    except CommandError as error:
        return run.name, "unreadable", "", "", "", str(error), ""
    steps = f"{run.curve.last_steps():,}/{facts.get('planned_steps', 0):,}"
    begun = str(facts.get("created", ""))[:16].replace("T", " ")
    return (run.name, facts["state"], str(facts.get("env")), str(facts.get("algorithm")), steps,
            headline_text(facts.get("headline")), begun)  # fmt: skip


def headline_text(headline: dict[str, Any] | None) -> str:
    """The number that a run is listed by."""
    if not headline:
        return ""
    value, low, high = (float(headline[name]) for name in ("value", "low", "high"))
    return f"{headline['metric']} {value:.4g} [{low:.3g}, {high:.3g}]"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def _tell(run: RunFolder) -> None:
    facts = run.facts
    known = {key: value for key, value in facts.items() if value is not None}
    for key, value in known.items():
        text = headline_text(value) if key == "headline" else _words(value)
        say(f"{key:14s} {text}")
    say(f"{'learnt':14s} {run.curve.last_steps():,} steps")
    for file in (run.config, run.policy, run.evaluation, run.report):
        if file.is_file():
            say(f"{'file':14s} {file}")
    if facts["state"] in ("interrupted", "failed"):
        say(f"\nto go on: sekai train {run.path} --resume")
