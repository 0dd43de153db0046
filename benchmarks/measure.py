"""Measurement tools: CPU time, medians of interleaved repeats, tables."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

PEERS = Path(__file__).parent.parent / ".venv" / "peers"
"""Folder of virtual environments for peers that cannot share our interpreter."""


def interleaved(
    subjects: Mapping[str, Callable[[], int]], repeats: int = 15
) -> dict[str, list[float]]:
    """Measure CPU nanoseconds per unit of each subject, interleaved so that noise is shared.

    A subject does its work once per call and returns how many units that was.
    """
    for run in subjects.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repeats):
        for name, run in subjects.items():
            begin = time.process_time_ns()
            units = run()
            times[name].append((time.process_time_ns() - begin) / units)
    return times


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """Median time of each subject."""
    return {name: statistics.median(values) for name, values in times.items()}


def peer_python(name: str, *packages: str) -> Path:
    """Return the interpreter of a virtual environment that holds `packages`."""
    folder = PEERS / name
    python = folder / "bin" / "python"
    if not python.exists():
        Console(stderr=True).print(f"[dim]creating an environment for the peer {name} ...[/dim]")
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), *packages]
        subprocess.run(install, check=True)
    return python


def in_peer(python: Path, script: str, *arguments: str) -> dict[str, list[float]]:
    """Run a script with a peer's interpreter and return its JSON output."""
    command = [str(python), "-I", "-c", script, *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, list[float]] = json.loads(printed)
    return result


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)
