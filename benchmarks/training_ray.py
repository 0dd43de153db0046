"""What workers of a Ray cluster cost, beside the same training in one process.

Wall time of iterations, without the first, in rounds that take turns, since the machine is shared.
Lost is what an iteration takes beyond what it would if workers cost nothing: learning as it is in
one process, and acting divided by the workers.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Sequence
from typing import Any

import ray

from measure import show
from sekai.training import PPO, Callback

ITERATIONS = 12
ROUNDS = 3
ROLLOUT_STEPS = 128
NETWORK = {"hidden": (64, 64)}


class Clocked(PPO):
    """Notes how long envs act, in seconds, iteration by iteration."""

    def __init__(self, env: Any, **given: Any) -> None:
        super().__init__(env, **given)
        self.acting: list[float] = []

    def _let_act(self, moments: Sequence[int]) -> None:
        begin = time.perf_counter()
        super()._let_act(moments)
        self.acting.append(time.perf_counter() - begin)


class Clock(Callback):
    """Notes when iterations end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_iteration(self, agent: Any, metrics: Any) -> None:
        """Look at the clock."""
        self.ends.append(time.perf_counter())


def iteration(env: str, num_envs: int, workers: int) -> tuple[float, float]:
    """Seconds of an iteration, and how many of them envs act; 0 workers for one process."""
    settings = {"rollout_steps": ROLLOUT_STEPS, "policy": NETWORK, "seed": 1}
    agent, clock = Clocked(env, num_envs=num_envs, **settings), Clock()
    steps = ITERATIONS * agent.iteration_steps
    if workers:
        agent.fit(steps, [clock], engine="ray", workers=workers)
    else:
        agent.fit(steps, [clock])
    pairs = zip(clock.ends[1:], clock.ends[:-1], strict=True)
    return statistics.median(end - begin for end, begin in pairs), statistics.median(
        agent.acting[1:]
    )


def measured(env: str, num_envs: int) -> list[list[str]]:
    """A row for each number of workers."""
    found: dict[int, list[tuple[float, float]]] = {0: [], 1: [], 2: []}
    for _ in range(ROUNDS):
        for workers, times in found.items():
            times.append(iteration(env, num_envs, workers))
    middle = {
        workers: [statistics.median(column) for column in zip(*times, strict=True)]
        for workers, times in found.items()
    }
    alone, acting = middle[0]
    rows = []
    for workers, (whole, own) in middle.items():
        ideal = alone - acting + acting / max(1, workers)
        lost = "" if not workers else f"{(whole - ideal) / whole:.1%}"
        name = f"{workers} workers" if workers else "one process"
        steps = num_envs * ROLLOUT_STEPS / whole
        rows.append([f"{env}, {num_envs} envs, {name}", f"{whole * 1e3:.1f}", f"{own * 1e3:.1f}",
                     f"{steps:,.0f}", f"{alone / whole:.2f}", lost])  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--ids", nargs="+", default=["Trading-v0", "MarketMaking-v0"])
    given = parser.parse_args()
    ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False,
             logging_level=logging.ERROR)  # fmt: skip
    rows = [row for env in given.ids for envs in given.envs for row in measured(env, envs)]
    ray.shutdown()
    columns = ["PPO", "ms an iteration", "of them acting", "steps/s", "beside one process", "lost"]
    show(f"Workers of Ray, rollouts of {ROLLOUT_STEPS} steps", columns, rows)


if __name__ == "__main__":
    main()
