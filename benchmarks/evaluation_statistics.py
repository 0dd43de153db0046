"""Coverage of confidence intervals, false positive rates and power of the evaluation statistics.

Returns are synthetic: independent, fat-tailed (Student's t with 4 degrees of freedom),
autocorrelated (AR(1) with 0.3) and clustered (GARCH). Confidence level 95 %, significance level
5 %. Edges are annualized by 252.

    python benchmarks/evaluation_statistics.py [--runs N]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import show
from tests.evaluation.statistics.noise import (
    EPISODES,
    KINDS,
    Method,
    bootstrap_verdicts,
    coverage,
    picked_verdicts,
    seed_coverage,
    seeds_verdicts,
)

RESAMPLES = 199
YEAR = math.sqrt(252)
STEPS = (60, 250, 1000)
ALONE = ("independent", "fat_tailed")
"""Kinds of noise without dependence over time, as values of different seeds."""


def percent(share: float) -> str:
    """Format a share in percent."""
    return f"{100 * share:.1f} %"


def coverages(runs: int) -> None:
    """Print the coverage of 95 % confidence intervals of the Sharpe ratio."""
    methods: tuple[Method, ...] = ("studentised", "percentile")
    rows = [
        [
            f"{kind}, {method}",
            *(percent(coverage(kind, runs, n, RESAMPLES, method=method)) for n in STEPS),
            percent(coverage(kind, runs, 400, RESAMPLES, EPISODES, method)),
        ]
        for kind in KINDS
        for method in methods
    ]
    columns = ["returns", *(f"{n} steps" for n in STEPS), f"{EPISODES} episodes of 50 steps"]
    show(f"Coverage of 95 % bootstrap intervals, {runs} runs", columns, rows)
    seeds = (3, 5, 16)
    rows = [[kind, *(percent(seed_coverage(kind, runs, n)) for n in seeds)] for kind in ALONE]
    columns = ["values", *(f"{n} seeds" for n in seeds)]
    show(f"Coverage of 95 % intervals over seeds, {runs} runs", columns, rows)


def false_alarms(runs: int) -> None:
    """Print false positive rates."""
    rows = []
    for kind in KINDS:
        picked = [picked_verdicts(kind, runs, trials) for trials in (1, 10, 100)]
        cells = [
            percent(seeds_verdicts(kind, runs)) if kind in ALONE else "",
            percent(bootstrap_verdicts(kind, runs, resamples=RESAMPLES)),
            *(percent(deflated) for deflated, _ in picked),
            percent(picked[-1][1]),
        ]
        rows.append([kind, *cells])
    trials = [f"best of {trials}, deflated" for trials in (1, 10, 100)]
    columns = ["returns", "16 seeds", "250 steps", *trials, "best of 100, not deflated"]
    show(f"False positive rate, {runs} runs", columns, rows)


def powers(runs: int) -> None:
    """Print the power to detect an edge."""
    by_seeds = [
        [f"{edge} deviations", *(percent(seeds_verdicts("independent", runs, edge, seeds))
                                 for seeds in (4, 8, 16, 32))]
        for edge in (0.5, 1.0, 2.0)
    ]  # fmt: skip
    show("Power over seeds", ["edge", *(f"{n} seeds" for n in (4, 8, 16, 32))], by_seeds)
    by_steps = [
        [f"{edge} Sharpe", *(percent(bootstrap_verdicts("independent", runs // 2, edge / YEAR,
                                                        steps, RESAMPLES))
                             for steps in (250, 1250, 2500))]
        for edge in (0.5, 1.0, 2.0)
    ]  # fmt: skip
    lengths = [f"{steps} steps" for steps in (250, 1250, 2500)]
    show("Power of the paired bootstrap", ["edge", *lengths], by_steps)
    by_trials = [
        [f"{edge} Sharpe", *(percent(picked_verdicts("independent", runs, trials, edge / YEAR,
                                                     1250)[0])
                             for trials in (1, 10, 100))]
        for edge in (1.0, 2.0, 3.0)
    ]  # fmt: skip
    columns = ["edge", *(f"1 of {trials} trials" for trials in (1, 10, 100))]
    show("Power of the deflated Sharpe ratio, 1,250 steps", columns, by_trials)


def main() -> None:
    """Print all tables with their CPU time."""
    parser = argparse.ArgumentParser(description="Coverage, false positives and power.")
    parser.add_argument("--runs", type=int, default=400, help="runs per case")
    runs = parser.parse_args().runs
    parts: list[Callable[[int], None]] = [coverages, false_alarms, powers]
    for part in parts:
        begin = time.process_time()
        part(runs)
        print(f"{time.process_time() - begin:.0f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
