"""Overhead of the workers of a Ray cluster, compared with training in one process.

CPU time of iterations without the first, minimum of interleaved rounds, since the machine is
shared. The critical path of collecting a rollout is the CPU time of the learner plus that of the
slowest worker: the wall time on a machine with enough cores, apart from one or two milliseconds of
latency. "Lost" is the critical path less the time to step as many envs as one worker has in a
single process, as a share of the iteration.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from measure import show
from sekai.training import PPO, Callback

ITERATIONS = 7
ROUNDS = 2
ROLLOUT_STEPS = 128
NETWORK = {"net_arch": (64, 64)}
WORKERS = (0, 1, 2)
"""Numbers of workers; 0 trains in one process."""


class Clocked(PPO):
    """PPO that records the CPU seconds of collecting each rollout."""

    def __init__(self, env: Any, **given: Any) -> None:
        super().__init__(env, **given)
        self.acting: list[float] = []

    def _run_envs(self, step_counts: Sequence[int]) -> None:
        begin = time.process_time()
        super()._run_envs(step_counts)
        self.acting.append(time.process_time() - begin)


@dataclass
class Clock(Callback):
    """Callback that records wall time, and CPU time of each process, after each iteration."""

    workers: int
    wall: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    theirs: list[list[float]] = field(default_factory=list)

    def after_iteration(self, agent: Any, metrics: Any) -> None:
        """Record all clocks."""
        self.wall.append(time.perf_counter())
        self.own.append(time.process_time())
        numbers = agent._engine.pool.ask("greet", [()] * self.workers) if self.workers else []
        self.theirs.append([_cpu_seconds(number) for number in numbers])


@dataclass(frozen=True)
class Times:
    """Seconds of an iteration."""

    wall: float
    learner: float
    acting: float
    """CPU seconds of the learner while collecting a rollout."""

    worker: float
    """CPU seconds of the slowest worker."""

    @property
    def way(self) -> float:
        """Critical path of collecting a rollout."""
        return self.acting + self.worker


def timed(env: str, num_envs: int, workers: int) -> Times:
    """Time a training run with `workers` workers; 0 for one process."""
    settings = {"n_steps": ROLLOUT_STEPS, "policy": NETWORK, "seed": 1}
    agent, clock = Clocked(env, n_envs=num_envs, **settings), Clock(workers)
    engine: dict[str, Any] = {"engine": "ray", "workers": workers} if workers else {}
    agent.fit(ITERATIONS * agent.iteration_steps, [clock], **engine)
    first, last = clock.theirs[0], clock.theirs[-1]
    spent = [(after - before) / (ITERATIONS - 1) for before, after in zip(first, last, strict=True)]
    return Times(
        _middle_step(clock.wall), _middle_step(clock.own), statistics.median(agent.acting[1:]),
        max(spent, default=0.0),
    )  # fmt: skip


def measured(env: str, num_envs: int) -> list[list[str]]:
    """Table rows, one for each number of workers."""
    found: dict[int, list[Times]] = {workers: [] for workers in WORKERS}
    ideal: dict[int, list[Times]] = {workers: [] for workers in WORKERS}
    for _ in range(ROUNDS):
        for workers in WORKERS:
            found[workers].append(timed(env, num_envs, workers))
            if workers:
                ideal[workers].append(timed(env, num_envs // workers, 0))
    alone = _least(found[0])
    learning = alone.learner - alone.acting
    rows = [[f"{env}, {num_envs} envs", "-", f"{learning * 1e3:.0f}", f"{alone.acting * 1e3:.0f}",
             "-", "-", f"{alone.wall * 1e3:.0f}", ""]]  # fmt: skip
    for workers in WORKERS[1:]:
        times, wanted = _least(found[workers]), _least(ideal[workers])
        lost = (times.way - wanted.acting) / (learning + times.way)
        numbers = (learning, times.acting, times.worker, wanted.acting, times.wall)
        rows.append(["", str(workers), *(f"{number * 1e3:.0f}" for number in numbers),
                     f"{lost:.1%}"])  # fmt: skip
    return rows


def _least(times: Sequence[Times]) -> Times:
    return min(times, key=lambda one: one.way)


def _middle_step(step_counts: Sequence[float]) -> float:
    pairs = zip(step_counts[1:], step_counts[:-1], strict=True)
    return statistics.median(after - before for after, before in pairs)


def _cpu_seconds(process: int) -> float:
    """CPU seconds of a process so far."""
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, nargs="+", default=[256])
    parser.add_argument("--ids", nargs="+", default=["Trading-v0", "MarketMaking-v0"])
    given = parser.parse_args()
    show_ray(given.ids, given.envs)


def show_ray(
    ids: Sequence[str] = ("Trading-v0", "MarketMaking-v0"), envs: Sequence[int] = (256,)
) -> None:
    """Print the overhead of workers for each env and number of envs."""
    ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False,
             logging_level=logging.ERROR)  # fmt: skip
    rows = [row for env in ids for count in envs for row in measured(env, count)]
    ray.shutdown()
    columns = ["PPO", "workers", "learning", "acting, learner", "slowest worker", "alone", "wall",
               "lost"]  # fmt: skip
    show(f"Milliseconds per iteration, rollouts of {ROLLOUT_STEPS} steps", columns, rows)


if __name__ == "__main__":
    main()
