"""Whether agents find what is known to be best, over many seeds.

Each run learns a task with a known optimum from scratch and is judged without chance in what it
chooses: the share of the optimum that it gets. What counts as having found it is under "wanted",
with the number of seeds that have to. Recipes are next to the tasks, in `tests/training/optima`:
they were chosen on seeds from 100 on, and are measured on seeds from 0 on.

    python benchmarks/optima.py [task ...] [--seeds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import show
from sekai.training import Agent
from tests.training.optima.task import Task
from tests.training.optima.tasks import TASKS

COLUMNS = ["task", "algorithm", "seeds", "median", "worst", "wanted", "found it", "CPU s a run"]


class Outcome(NamedTuple):
    """What the seeds of one algorithm came to."""

    shares: list[float]
    seconds: list[float]


def measured(task: Task, kind: type[Agent], seeds: int) -> Outcome:
    """Learn a task from every seed, and tell how each went."""
    outcome = Outcome([], [])
    for seed in range(seeds):
        begin = time.process_time()
        outcome.shares.append(task.run(kind, seed))
        outcome.seconds.append(time.process_time() - begin)
        print(
            f"{task.name}, {kind.__name__}, seed {seed}: {outcome.shares[-1]:.4f} of the optimum "
            f"in {outcome.seconds[-1]:.1f} s",
            flush=True,
        )
    return outcome


def row(task: Task, kind: type[Agent], outcome: Outcome) -> list[str]:
    """One line of the table."""
    shares, seeds = outcome.shares, len(outcome.shares)
    return [
        task.name,
        kind.__name__,
        str(seeds),
        f"{statistics.median(shares):.3f}",
        f"{min(shares):.3f}",
        f"{task.enough:.3f} in {task.needed(seeds)}",
        f"{task.found(shares)} of {seeds}",
        f"{statistics.mean(outcome.seconds):.1f}",
    ]


def main() -> None:
    """Measure the tasks that are named, or all."""
    parser = argparse.ArgumentParser(description="Whether agents find what is known to be best.")
    parser.add_argument("tasks", nargs="*", metavar="task", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, help="how many seeds; by default those of each task")
    asked = parser.parse_args()
    unknown = sorted(set(asked.tasks) - set(TASKS))
    if unknown:
        parser.error(f"unknown tasks {', '.join(unknown)}; expected some of {', '.join(TASKS)}")
    show(
        "Shares of known optima",
        COLUMNS,
        [
            row(task, kind, measured(task, kind, asked.seeds or task.seeds))
            for task in map(TASKS.__getitem__, asked.tasks or TASKS)
            for kind in task.recipes
        ],
    )


if __name__ == "__main__":
    main()
