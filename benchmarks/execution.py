"""What working an order costs, beside PyPI's sekai 0.2.0, and what its optimal schedule pays.

CPU and wall time, medians of repeats that take turns, since the machine is shared. The peer runs
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
"""What an action trades of what is left."""

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
    """What a step of sekai 0.2.0 costs, over `count` of them."""
    python = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    arguments = [str(envs), str(count), str(SHARE)]
    return Cost(*in_peer(python, PEER_SCRIPT, *arguments)["seconds"])


def vector_step(threads: int, copy: bool = True, **settings: Any) -> Callable[[], object]:
    """A step of many envs with given actions, as a learner's network would make them."""
    vec = sekai.make_vec("OptimalExecution-v0", ENVS, num_threads=threads, copy=copy, **settings)
    vec.reset(seed=0)
    return partial(vec.step, np.full((ENVS, 1), SHARE, np.float32))


def single_step() -> Callable[[], object]:
    """A step of one env."""
    env, action = sekai.make("OptimalExecution-v0"), np.full(1, SHARE)
    env.reset(seed=0)

    def step() -> None:
        if env.step(action).done:
            env.reset()

    return step


def execution(rounds: int) -> None:
    """Many envs in one call."""
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
    """One env, step by step from Python."""
    subjects = {"sekai.make": partial(cost_of, single_step(), 20_000)}
    costs = in_turn({**subjects, "sekai 0.2.0": partial(cost_of_peer, 1, 5_000)}, rounds)
    show_costs("one order", costs, 1)


def schedule(rounds: int) -> None:
    """What the optimal schedule costs when it is played, beside its closed form."""
    rows = []
    for steps in (1, 5, 25, 100):
        config = OptimalExecutionConfig(episode_steps=steps)
        costs, model = played(config, 4 * rounds), config.model
        mean, variance = model.expected_cost(), model.variance()
        error = math.sqrt(variance / costs.size)
        # The relative standard error of the variance of normal draws.
        own_error = math.sqrt(2 / (costs.size - 1))
        spread = costs.var(ddof=1) / variance - 1 if variance else 0.0
        rows.append([
            f"{steps}", f"{mean:,.0f}", f"{costs.mean() - mean:+,.0f}", f"{error:,.0f}",
            f"{variance:.4g}", f"{spread:+.4%}", f"{own_error:.4%}",
        ])  # fmt: skip
    columns = ["decisions", "mean cost", "played", "error", "variance", "played", "error"]
    show("the optimal schedule, closed form and played", columns, rows)


def played(config: OptimalExecutionConfig, rounds: int) -> Any:
    """The shortfall of many episodes that play the optimal schedule."""
    vec: Any = sekai.make_vec(
        "OptimalExecution-v0", ENVS, "native", autoreset="disabled", config=config
    )
    policy = OptimalSchedule(config)
    costs = np.empty((rounds, ENVS))
    for number in range(rounds):
        shown = vec.reset(seed=0 if number == 0 else None).observations
        for _ in range(config.episode_steps):
            shown = vec.step(policy(shown)).observations
        costs[number] = vec.batch.infos()["shortfall"]
    return costs
