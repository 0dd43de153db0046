"""Step cost of market making against PyPI's sekai 0.2.0, and value of the optimal policy.

Medians of interleaved repeats of CPU and wall time, since the machine is shared. The peer runs
in an interpreter of its own, in the same run.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import sekai
from measure import in_peer, peer_python, show
from sekai.envs import MarketMaking

ENVS = 4096
PUBLISHED = 64.1335
"""Published certainty equivalent of the optimal policy in the default market."""

PEER_SCRIPT = """
import json, sys, time
import numpy as np
from sekai.envs.finance import MarketMakingEnv, MarketMakingVecEnv
envs, steps = int(sys.argv[1]), int(sys.argv[2])
if envs == 1:
    env, action = MarketMakingEnv(), np.full(2, 0.67, np.float32)
    env.reset(seed=0)
    def step():
        if env.step(action).done:
            env.reset()
else:
    vec, actions = MarketMakingVecEnv(envs), np.full((envs, 2), 0.67, np.float32)
    vec.reset(seed=0)
    def step():
        vec.step(actions)
for repeat in range(2):
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        step()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({"seconds": [cpu / steps, wall / steps]}))
"""


class Cost(NamedTuple):
    """Seconds per step."""

    cpu: float
    wall: float


def cost_of(step: Callable[[], object], count: int) -> Cost:
    """Cost per step, averaged over `count` steps."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        step()
    return Cost((time.process_time() - cpu) / count, (time.perf_counter() - wall) / count)


def cost_of_peer(envs: int, count: int) -> Cost:
    """Cost per step of sekai 0.2.0, averaged over `count` steps."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    return Cost(*in_peer(python, PEER_SCRIPT, str(envs), str(count))["seconds"])


def in_turn(subjects: dict[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """Median cost of each subject, interleaved so that noise is shared."""
    costs: dict[str, list[Cost]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            costs[name].append(run())
    return {name: Cost(*map(statistics.median, zip(*c, strict=True))) for name, c in costs.items()}


def vector_step(threads: int, copy: bool = True) -> Callable[[], object]:
    """Return a function that steps many envs with constant actions."""
    vec = sekai.make_vec("MarketMaking-v0", ENVS, num_threads=threads, copy=copy)
    vec.reset(seed=0)
    return partial(vec.step, np.full((ENVS, 2), 0.67))


def single_step() -> Callable[[], object]:
    """Return a function that steps one env and resets it at the end of an episode."""
    env, action = sekai.make("MarketMaking-v0"), np.full(2, 0.67)
    env.reset(seed=0)

    def step() -> None:
        if env.step(action).done:
            env.reset()

    return step


def show_costs(title: str, costs: dict[str, Cost], envs: int) -> None:
    """Print steps per CPU and wall second, and the speed-up over the last subject."""
    peer = list(costs.values())[-1]
    rows = [
        [
            name,
            f"{envs / cost.cpu / 1e6:,.2f}",
            f"{envs / cost.wall / 1e6:,.2f}",
            f"{peer.cpu / cost.cpu:.1f}x",
            f"{peer.wall / cost.wall:.1f}x",
        ]
        for name, cost in costs.items()
    ]
    show(title, ["", "M env-steps/CPU s", "per wall s", "speed-up, CPU", "wall"], rows)


def making(rounds: int) -> None:
    """Measure many envs in one call."""
    steps = {
        "1 thread": vector_step(1),
        "2 threads": vector_step(2),
        "2 threads, copy=False": vector_step(2, copy=False),
    }
    subjects = {name: partial(cost_of, step, 200) for name, step in steps.items()}
    costs = in_turn({**subjects, "sekai 0.2.0": partial(cost_of_peer, ENVS, 50)}, rounds)
    show_costs(f"{ENVS:,} market makers (target: 10 M env-steps/s on 2 threads)", costs, ENVS)


def single(rounds: int) -> None:
    """Measure one env, step by step from Python."""
    subjects = {"sekai.make": partial(cost_of, single_step(), 20_000)}
    costs = in_turn({**subjects, "sekai 0.2.0": partial(cost_of_peer, 1, 5_000)}, rounds)
    show_costs("one market maker (target: 0.4 M steps/s)", costs, 1)


def optimum(rounds: int) -> None:
    """Print the certainty equivalent of the optimal policy by number of decisions in an episode."""
    rows = []
    for steps in (25, 50, 100, 200, 1000):
        value, error = optimal_certainty_equivalent(steps, 4 * rounds)
        rows.append([f"{steps:,}", f"{value:.3f}", f"{error:.3f}", f"{value - PUBLISHED:+.3f}"])
    columns = ["decisions an episode", "certainty equivalent", "standard error", "less published"]
    show(f"the optimal maker (published: {PUBLISHED})", columns, rows)


def optimal_certainty_equivalent(steps: int, rounds: int) -> tuple[float, float]:
    """Certainty equivalent of the optimal policy's wealth, and its standard error."""
    aversion = MarketMaking().config.risk_aversion
    vec: Any = sekai.make_vec(
        "MarketMaking-v0", ENVS, "native", autoreset="disabled", episode_steps=steps
    )
    wealth = np.empty((rounds, ENVS))
    for number in range(rounds):
        vec.reset(seed=0 if number == 0 else None)
        for _ in range(steps):
            vec.step(vec.batch.optimal_action())
        wealth[number] = vec.batch.infos()["wealth"]
    utility = np.exp(-aversion * (wealth - wealth.mean()))
    error = utility.std() / utility.mean() / aversion / math.sqrt(wealth.size)
    return wealth.mean() - math.log(utility.mean()) / aversion, error
