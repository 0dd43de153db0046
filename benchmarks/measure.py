"""How benchmarks measure: CPU time, medians of interleaved repeats, ratios in a table."""

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
"""Where peers that cannot share our interpreter have environments of their own."""


def interleaved(
    subjects: Mapping[str, Callable[[], int]], repeats: int = 15
) -> dict[str, list[float]]:
    """Nanoseconds of CPU time per unit for each subject, taking turns so that noise is shared.

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
    """The middle of each subject's times."""
    return {name: statistics.median(values) for name, values in times.items()}


def peer_python(name: str, *packages: str) -> Path:
    """The interpreter of an environment that holds `packages` and not this project."""
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
    """What a script printed as JSON when run by a peer's interpreter."""
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
