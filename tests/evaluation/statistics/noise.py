"""Synthetic returns with known moments, and error rates of the statistics on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Interval
from sekai.evaluation.metrics import sharpe
from sekai.evaluation.statistics import (
    bootstrap_interval,
    deflated_sharpe_of,
    paired,
    paired_bootstrap,
    seed_interval,
)

Floats = NDArray[np.float64]
Method = Literal["studentised", "percentile"]
TRUTH = 0.05
"""The true Sharpe ratio of a step where nothing else is said."""

EPISODES = 8


def independent(steps: int, rng: np.random.Generator) -> Floats:
    """Independent normal returns."""
    return rng.normal(0.0, 1.0, steps)


def fat_tailed(steps: int, rng: np.random.Generator) -> Floats:
    """Independent Student's t returns with 4 degrees of freedom."""
    found: Floats = rng.standard_t(4, steps) / np.sqrt(2.0)
    return found


def persistent(steps: int, rng: np.random.Generator) -> Floats:
    """AR(1) returns with coefficient 0.3."""
    shocks = rng.normal(0.0, np.sqrt(1.0 - 0.3**2), steps + 50)
    found = np.zeros(steps + 50)
    for step in range(1, len(found)):
        found[step] = 0.3 * found[step - 1] + shocks[step]
    return found[50:]


def clustered(steps: int, rng: np.random.Generator) -> Floats:
    """Returns with clustered volatility: GARCH with 0.1 and 0.85."""
    draws, variance = rng.normal(0.0, 1.0, steps + 200), 1.0
    found = np.zeros(steps + 200)
    for step, draw in enumerate(draws):
        found[step] = np.sqrt(variance) * draw
        variance = 0.05 + 0.1 * found[step] ** 2 + 0.85 * variance
    return found[200:]


KINDS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    kind.__name__: kind for kind in (independent, fat_tailed, persistent, clustered)
}


def ratio(returns: Floats) -> float:
    """The Sharpe ratio of a step."""
    return sharpe(returns, 1.0)


def coverage(
    kind: str,
    runs: int,
    steps: int,
    resamples: int,
    episodes: int = 1,
    method: Method = "studentised",
) -> float:
    """The share of bootstrap intervals of 95 % that hold the truth."""
    held = 0
    for run in range(runs):
        rng = np.random.default_rng([run, steps, episodes])
        tables = [KINDS[kind](steps // episodes, rng) + TRUTH for _ in range(episodes)]
        found = bootstrap_interval(tables, ratio, resamples=resamples, seed=run, method=method)
        held += found.low <= TRUTH <= found.high
    return held / runs


def seed_coverage(kind: str, runs: int, seeds: int) -> float:
    """The share of intervals over seeds that hold the truth."""

    def interval(run: int) -> Interval:
        return seed_interval(list(KINDS[kind](seeds, np.random.default_rng(run))))

    return float(np.mean([found.low <= 0.0 <= found.high for found in map(interval, range(runs))]))


def seeds_verdicts(kind: str, runs: int, edge: float = 0.0, seeds: int = 16) -> float:
    """Rejection rate of the paired t-test over seeds, for an edge in standard deviations."""
    chances = []
    for run in range(runs):
        rng = np.random.default_rng([run, seeds])
        agent, baseline = KINDS[kind](seeds, rng) + edge, KINDS[kind](seeds, rng)
        chances.append(paired(list(agent), list(baseline))[1])
    return float(np.mean(np.array(chances) < 0.05))


def bootstrap_verdicts(
    kind: str, runs: int, edge: float = 0.0, steps: int = 250, resamples: int = 199
) -> float:
    """Rejection rate of the paired bootstrap over returns of the same market.

    Both hold the market, with noise of their own of half its size: `edge` is the true difference
    of their Sharpe ratios of a step.
    """
    chances = []
    for run in range(runs):
        rng = np.random.default_rng([run, steps, 7])
        market, own, other = (KINDS[kind](steps, rng) for _ in range(3))
        agent = market + 0.5 * own + edge * np.sqrt(1.25)
        baseline = market + 0.5 * other
        found = paired_bootstrap(agent, baseline, ratio, resamples=resamples, seed=run)
        chances.append(found[1])
    return float(np.mean(np.array(chances) < 0.05))


def picked_verdicts(
    kind: str, runs: int, trials: int = 50, edge: float = 0.0, steps: int = 250
) -> tuple[float, float]:
    """Acceptance rate of the best of many agents, with and without deflation.

    One of them has an edge, the true Sharpe ratio of a step; the others have none.
    """
    believed = np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng([run, trials, 11])
        table = KINDS[kind](steps * trials, rng).reshape(trials, steps)
        table[0] += edge
        ratios = [ratio(one) for one in table]
        honest = deflated_sharpe_of(table[int(np.argmax(ratios))], ratios)
        believed += [honest.deflated > 0.95, honest.probabilistic > 0.95]
    deflated, naive = believed / runs
    return float(deflated), float(naive)
