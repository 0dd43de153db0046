"""Step time of Trading-v0, for one env and many, and its scaling.

CPU time per step, and wall time with several threads; medians of interleaved repeats, since the
machine is shared. The peer runs in an interpreter of its own, in the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import sekai
from measure import in_peer, interleaved, medians, peer_python, show
from sekai.market import PopulationConfig
from sekai.vector import VecEnv

ENVS = 256
STEPS = 200

PEER_SCRIPT = """
import json, time
import sekai
env = sekai.make("LimitOrderBook-v0")
env.action_space.seed(0)
env.reset(seed=0)
rates = []
for repeat in range(6):
    begin = time.process_time()
    for _ in range(400):
        result = env.step(env.action_space.sample())
        if result.terminated or result.truncated:
            env.reset()
    rates.append(400 / (time.process_time() - begin))
print(json.dumps({"rates": rates[1:]}))
"""


def rollout(vector: VecEnv, steps: int) -> Callable[[], int]:
    """Return a run of a vector env with random actions; a unit is one env-step."""
    rng = np.random.default_rng(0)
    space = vector.single_action_space
    symbols = (len(space.nvec),) if isinstance(space, sekai.MultiDiscrete) else ()
    actions = rng.integers(0, 3, (steps, vector.num_envs, *symbols))
    vector.reset(seed=0)

    def run() -> int:
        for action in actions:
            vector.step(action)
        return steps * vector.num_envs

    return run


def wall_rates(runs: dict[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Median env-steps per second of wall time, interleaved so that noise is shared."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            units = run()
            rates[name].append(units / (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in rates.items()}


def single_run(steps: int) -> Callable[[], int]:
    """Return a run of one env from Python."""
    env = sekai.make("Trading-v0")
    env.reset(seed=0)

    def run() -> int:
        for index in range(steps):
            if env.step(index % 3).done:
                env.reset()
        return steps

    return run


def reset_run(count: int) -> Callable[[], int]:
    """Return a run of resets with many seeds, whose initial states are cached."""
    env = sekai.make("Trading-v0")
    for seed in range(500):
        env.reset(seed=seed)

    def run() -> int:
        for seed in range(count):
            env.reset(seed=seed)
        return count

    return run


def trading(repeats: int) -> None:
    """Compare rates of steps and resets with the peer."""
    vectors = {
        f"{ENVS} envs, {threads} thread{'s' * (threads > 1)}": rollout(
            sekai.make_vec("Trading-v0", num_envs=ENVS, num_threads=threads, copy=False), STEPS
        )
        for threads in (1, 2)
    }
    wall = wall_rates(vectors, repeats)
    subjects = {**vectors, "one env from Python": single_run(5_000), "reset": reset_run(500)}
    cpu = medians(interleaved(subjects, repeats))
    peer = statistics.median(
        in_peer(peer_python("sekai-0.2.0", "sekai==0.2.0"), PEER_SCRIPT)["rates"]
    )
    rows = []
    for name, nanoseconds in cpu.items():
        rate = 1e9 / nanoseconds
        wall_rate = f"{wall[name]:,.0f}" if name in wall else ""
        rows.append(
            [name, wall_rate, f"{rate:,.0f}", f"{nanoseconds / 1e3:.1f}", f"{rate / peer:,.0f}x"]
        )
    rows.append(["sekai 0.2.0 LimitOrderBook-v0", "", f"{peer:,.0f}", f"{1e6 / peer:.1f}", "1x"])
    title = (
        "Trading-v0, 100 agents (target: 256 envs 250,000/s wall on 2 cores, aim 400,000; one env"
    )
    show(
        f"{title} 100,000/s; reset under 100 us)",
        ["", "per wall s", "per CPU s", "us CPU each", "speed-up"],
        rows,
    )


def growth(repeats: int) -> None:
    """Measure scaling with agents, symbols and envs."""
    crowded = replace(PopulationConfig.preset("standard"), pool=1_000_000)
    cases: dict[str, tuple[int, dict[str, Any]]] = {
        "100 agents, 1 symbol, 1 env": (1, {}),
        "100 agents, 1 symbol, 16 envs": (16, {}),
        "100 agents, 1 symbol, 256 envs": (256, {}),
        "100 agents, 1 symbol, 2,048 envs": (2_048, {}),
        "100 agents, 2 symbols, 64 envs": (64, {"symbols": 2}),
        "100 agents, 8 symbols, 64 envs": (64, {"symbols": 8}),
        "400 agents + pool of 10,000, 64 envs": (64, {"population": "standard"}),
        "400 agents + pool of 1,000,000, 64 envs": (64, {"population": crowded}),
    }
    runs = {}
    for name, (envs, settings) in cases.items():
        vector = sekai.make_vec("Trading-v0", num_envs=envs, num_threads=1, copy=False, **settings)
        runs[name] = rollout(vector, max(2, 4_096 // envs))
    times = medians(interleaved(runs, repeats))
    rows = [[name, f"{cost / 1e3:.2f}", f"{1e9 / cost:,.0f}"] for name, cost in times.items()]
    show("Scaling, one thread", ["", "us CPU per step", "env-steps/CPU s"], rows)
