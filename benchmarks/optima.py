"""Share of known optima that trained agents reach, over many seeds.

Each run trains on a task with a known optimum from scratch and is evaluated with deterministic
actions: the score is the share of the optimum. The column "target" gives the required share and
the number of seeds that must reach it. Hyperparameters are next to the tasks, in
`tests/training/optima`: they were chosen on seeds from 100 on, and are measured on seeds from 0 on.

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

COLUMNS = ["task", "algorithm", "seeds", "median", "worst", "target", "reached", "CPU s a run"]


class Outcome(NamedTuple):
    """Results of one algorithm over seeds."""

    shares: list[float]
    seconds: list[float]


def measure(task: Task, kind: type[Agent], seeds: int) -> Outcome:
    """Train on a task with every seed, and print each result."""
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
    """Table row of one task and algorithm."""
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
    """Measure the named tasks, or all of them."""
    parser = argparse.ArgumentParser(description="Share of known optima that trained agents reach.")
    parser.add_argument("tasks", nargs="*", metavar="task", help=f"one of {', '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, help="number of seeds; by default that of each task")
    options = parser.parse_args()
    unknown = sorted(set(options.tasks) - set(TASKS))
    if unknown:
        parser.error(f"unknown tasks {', '.join(unknown)}; expected a subset of {', '.join(TASKS)}")
    show(
        "Shares of known optima",
        COLUMNS,
        [
            row(task, kind, measure(task, kind, options.seeds or task.seeds))
            for task in map(TASKS.__getitem__, options.tasks or TASKS)
            for kind in task.recipes
        ],
    )


if __name__ == "__main__":
    main()
