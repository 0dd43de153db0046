"""Step cost of order execution against PyPI's sekai 0.2.0, and shortfall of the optimal schedule.

Medians of interleaved repeats of CPU and wall time, since the machine is shared. The peer runs
in an interpreter of its own, in the same run, with the same market, decisions and actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import sekai
from market_making import Cost, cost_of, in_turn, show_costs
from measure import in_peer, peer_python, show
from sekai.envs import OptimalExecutionConfig, OptimalSchedule

ENVS = 4096
SHARE = 0.1
"""Fraction of the remaining quantity traded by each action."""

PEER_SCRIPT = """
import json, sys, time
import numpy as np
from sekai.envs.finance import OptimalExecutionEnv, OptimalExecutionVecEnv
envs, steps, share = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
if envs == 1:
    env, action = OptimalExecutionEnv(), np.full(1, share, np.float32)
    env.reset(seed=0)
    def step():
        if env.step(action).done:
            env.reset()
else:
    vec, actions = OptimalExecutionVecEnv(envs), np.full((envs, 1), share, np.float32)
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


def cost_of_peer(envs: int, count: int) -> Cost:
    """Cost per step of sekai 0.2.0, averaged over `count` steps."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    arguments = [str(envs), str(count), str(SHARE)]
    return Cost(*in_peer(python, PEER_SCRIPT, *arguments)["seconds"])


def vector_step(threads: int, copy: bool = True, **settings: Any) -> Callable[[], object]:
    """Return a function that steps many envs with float32 actions, as a network would output."""
    vec = sekai.make_vec("OptimalExecution-v0", ENVS, num_threads=threads, copy=copy, **settings)
    vec.reset(seed=0)
    return partial(vec.step, np.full((ENVS, 1), SHARE, np.float32))


def single_step() -> Callable[[], object]:
    """Return a function that steps one env and resets it at the end of an episode."""
    env, action = sekai.make("OptimalExecution-v0"), np.full(1, SHARE)
    env.reset(seed=0)

    def step() -> None:
        if env.step(action).done:
            env.reset()

    return step


def execution(rounds: int) -> None:
    """Measure many envs in one call."""
    steps = {
        "1 thread": vector_step(1),
        "1 thread, copy=False": vector_step(1, copy=False),
        "1 thread, copy=False, 5 decisions": vector_step(1, copy=False, episode_steps=5),
        "2 threads, copy=False": vector_step(2, copy=False),
    }
    subjects = {name: partial(cost_of, step, 200) for name, step in steps.items()}
    costs = in_turn({**subjects, "sekai 0.2.0": partial(cost_of_peer, ENVS, 50)}, rounds)
    title = f"{ENVS:,} orders (target: 10 M env-steps per CPU-second on 1 thread)"
    show_costs(title, costs, ENVS)


def single_order(rounds: int) -> None:
    """Measure one env, step by step from Python."""
    subjects = {"sekai.make": partial(cost_of, single_step(), 20_000)}
    costs = in_turn({**subjects, "sekai 0.2.0": partial(cost_of_peer, 1, 5_000)}, rounds)
    show_costs("one order", costs, 1)


def schedule(rounds: int) -> None:
    """Compare the simulated cost of the optimal schedule with its closed form."""
    rows = []
    for steps in (1, 5, 25, 100):
        config = OptimalExecutionConfig(episode_steps=steps)
        costs, model = simulated_costs(config, 4 * rounds), config.model
        mean, variance = model.expected_cost(), model.variance()
        error = math.sqrt(variance / costs.size)
        # The relative standard error of the variance of normal draws.
        variance_error = math.sqrt(2 / (costs.size - 1))
        variance_gap = costs.var(ddof=1) / variance - 1 if variance else 0.0
        rows.append([
            f"{steps}", f"{mean:,.0f}", f"{costs.mean() - mean:+,.0f}", f"{error:,.0f}",
            f"{variance:.4g}", f"{variance_gap:+.4%}", f"{variance_error:.4%}",
        ])  # fmt: skip
    columns = ["decisions", "mean cost", "simulated", "error", "variance", "simulated", "error"]
    show("the optimal schedule, closed form and simulated", columns, rows)


def simulated_costs(config: OptimalExecutionConfig, rounds: int) -> Any:
    """Implementation shortfall of many episodes of the optimal schedule."""
    vec: Any = sekai.make_vec(
        "OptimalExecution-v0", ENVS, "native", autoreset="disabled", config=config
    )
    policy = OptimalSchedule(config)
    costs = np.empty((rounds, ENVS))
    for number in range(rounds):
        observations = vec.reset(seed=0 if number == 0 else None).observations
        for _ in range(config.episode_steps):
            observations = vec.step(policy(observations)).observations
        costs[number] = vec.batch.infos()["shortfall"]
    return costs
