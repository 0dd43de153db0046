"""Independent training runs over seeds, folds or settings."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.storage.files import SHARED, atomic_write
from sekai.training.callbacks.callback import Callback
from sekai.training.ray.cluster import EngineName, answered, check_engine, connected

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Fitted", "fit_many"]

LOG = logging.getLogger(__name__)

RETRIES = 3
"""Restarts of a run whose process was lost."""


@dataclass(frozen=True)
class Fitted:
    """Result of one training run."""

    case: Any
    path: Path
    """Model file of the agent."""

    metrics: Mapping[str, float]
    """Metrics of the last iteration."""


def fit_many(
    make_agent: Callable[[Any], Agent],
    cases: Sequence[Any],
    steps: int,
    folder: str | os.PathLike[str],
    *,
    training: bool = False,
    engine: EngineName = "local",
    address: str | None = None,
) -> list[Fitted]:
    """Train and save an agent for each case; results are in the order of the cases.

    Args:
        make_agent: makes the agent of a case: `lambda seed: PPO("Trading-v0", seed=seed)`. With
            "ray" it is called in other processes, and must register the env ids it uses.
        cases: seeds, folds or settings of the runs.
        steps: env steps of each run, as in `Agent.fit`.
        folder: folder of the model files: `0000.safetensors` is that of the first case.
        training: save the training state; see `Agent.save`.
        engine: "local" runs one after the other, "ray" one per core of the cluster. The saved
            agents are the same.
        address: address of a cluster, as in `Agent.fit`.
    """
    check_engine(engine, None, address)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    task = _Task(make_agent, steps, training)
    done = map(task, cases) if engine == "local" else _spread(task, cases, address)
    results = []
    for index, case in enumerate(cases):
        try:
            saved, metrics = next(done)
        except Exception:
            LOG.error("training run %d of %d failed (case %r)", index + 1, len(cases), case)
            raise
        path = target / f"{index:04}.safetensors"
        atomic_write(path, saved, mode=SHARED)
        results.append(Fitted(case, path, metrics))
    return results


@dataclass(frozen=True)
class _Task:
    """One training run: from a case to a model file and the last metrics."""

    make_agent: Callable[[Any], Agent]
    steps: int
    training: bool

    def __call__(self, case: Any) -> tuple[bytes, dict[str, float]]:
        return self._fitted(self.make_agent(case))

    def _fitted(self, agent: Agent) -> tuple[bytes, dict[str, float]]:
        last = _Last()
        try:
            agent.fit(self.steps, [last])
            with tempfile.TemporaryDirectory() as folder:
                path = agent.save(Path(folder) / "agent.safetensors", training=self.training)
                return path.read_bytes(), last.metrics
        finally:
            agent.close()


class _Last(Callback):
    """Records the metrics of the last iteration."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Record the metrics."""
        self.metrics = dict(metrics)


def _spread(task: _Task, cases: Sequence[Any], address: str | None) -> Iterator[Any]:
    with connected(address, None) as ray:
        run = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        shared = ray.put(task)
        answers = deque(run.remote(shared, case) for case in cases)
        try:
            while answers:
                result = answered(ray, answers[0])
                # Cancelling a finished task may make Ray end this process.
                answers.popleft()
                yield result
        finally:
            _cancel(ray, list(answers))


def _cancel(ray: Any, answers: list[Any]) -> None:
    """Cancel unfinished tasks."""
    if not answers:
        return
    _, unfinished = ray.wait(answers, num_returns=len(answers), timeout=0)
    for answer in unfinished:
        with suppress(ray.exceptions.RayError):
            ray.cancel(answer, force=True)


def _run(task: _Task, case: Any) -> Any:
    return task(case)
