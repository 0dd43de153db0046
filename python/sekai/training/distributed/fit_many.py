"""Many trainings that know nothing of each other: seeds, folds, settings."""

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

from sekai.training.callbacks.callback import Callback
from sekai.training.distributed.cluster import answered, connected
from sekai.training.distributed.engine import EngineName, check_engine

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Fitted", "fit_many"]

LOG = logging.getLogger(__name__)

RETRIES = 3
"""How often a training is begun again whose process was lost."""


@dataclass(frozen=True)
class Fitted:
    """What came of one training."""

    case: Any
    path: Path
    """Where its agent is kept."""

    metrics: Mapping[str, float]
    """What its last iteration told."""


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
    """Train an agent for each case, and keep them all; the results are in the order of the cases.

    Args:
        make_agent: makes the agent of a case: `lambda seed: PPO("Trading-v0", seed=seed)`. With
            "ray" it is called in other processes, which know only the env ids that it registers.
        cases: seeds, folds, or whatever tells the trainings apart.
        steps: how many each of them learns, as in `Agent.fit`.
        folder: where agents are kept: `0000.safetensors` is that of the first case.
        training: whether training can go on from there; see `Agent.save`.
        engine: "local", one after the other, or "ray", as many at once as the cluster has cores.
            What is kept is the same.
        address: of a cluster, as in `Agent.fit`.
    """
    check_engine(engine, None, address)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, was {steps}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    task = _Task(make_agent, steps, training)
    done = map(task, cases) if engine == "local" else _spread(task, cases, address)
    found = []
    for place, case in enumerate(cases):
        try:
            kept, metrics = next(done)
        except Exception:
            LOG.error("training %d of %d failed, whose case is %r", place + 1, len(cases), case)
            raise
        path = target / f"{place:04}.safetensors"
        _write(path, kept)
        found.append(Fitted(case, path, metrics))
    return found


@dataclass(frozen=True)
class _Task:
    """One training, from a case to the bytes of an agent and what its last iteration told."""

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
    """Remembers what the last iteration told."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Remember it."""
        self.metrics = dict(metrics)


def _spread(task: _Task, cases: Sequence[Any], address: str | None) -> Iterator[Any]:
    with connected(address, None) as ray:
        run = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        shared = ray.put(task)
        answers = deque(run.remote(shared, case) for case in cases)
        try:
            while answers:
                found = answered(ray, answers[0])
                # What is done must not be cancelled: Ray may end this process over it.
                answers.popleft()
                yield found
        finally:
            _cancel(ray, list(answers))


def _cancel(ray: Any, answers: list[Any]) -> None:
    """Let nobody compute what nobody waits for."""
    if not answers:
        return
    _, unfinished = ray.wait(answers, num_returns=len(answers), timeout=0)
    for answer in unfinished:
        with suppress(ray.exceptions.RayError):
            ray.cancel(answer, force=True)


def _run(task: _Task, case: Any) -> Any:
    return task(case)


def _write(path: Path, kept: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(kept)
    os.replace(part, path)
