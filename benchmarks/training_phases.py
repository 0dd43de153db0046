"""CPU time of training by phase; phases are disjoint and add up to the total."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from sekai.training import PPO

__all__ = ["PHASES", "phases_of"]

PHASES = (
    "native rollout",
    "native update",
    "env step",
    "policy forward",
    "storing",
    "normalisation",
    "advantages",
    "drawing samples",
    "loss forward",
    "backward",
    "optimiser",
    "other",
)


class Clock:
    """Phase timer: attributes CPU time to the innermost active phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._under_way = ["other"]
        self._since = time.process_time()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Attribute the time in this context to a phase, except for nested phases."""
        self.turn()
        self._under_way.append(name)
        try:
            yield
        finally:
            self.turn()
            self._under_way.pop()

    def turn(self) -> None:
        """Add the time since the last call to the active phase."""
        now = time.process_time()
        self.seconds[self._under_way[-1]] += now - self._since
        self._since = now

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function as a phase."""

        def run(*given: Any, **named: Any) -> Any:
            with self.phase(name):
                return function(*given, **named)

        return run


def phases_of(agent: PPO, steps: int) -> dict[str, float]:
    """Seconds of CPU time of each phase while an agent trains for `steps` env-steps."""
    clock = Clock()
    with _watched(agent, clock):
        clock.turn()
        clock.seconds = dict.fromkeys(PHASES, 0.0)
        agent.fit(steps)
        clock.turn()
    return clock.seconds


@contextmanager
def _watched(agent: PPO, clock: Clock) -> Iterator[None]:
    learner = agent.learners[""]
    normaliser = learner.network.inputs
    places: list[tuple[Any, str, str]] = [
        (agent.vec, "step", "env step"),
        (agent.network, "choose", "policy forward"),
        (agent.actions, "to_env", "policy forward"),
        (agent.rollout, "fill", "storing"),
        (normaliser, "update", "normalisation"),
        (learner, "_preprocessed", "normalisation"),
        (learner, "_rewards", "normalisation"),
        (learner, "batch", "advantages"),
        (learner, "train_natively", "native update"),
        (learner, "log_probs", "loss forward"),
        (agent, "_loss", "loss forward"),
        (learner.gradient_step.optimizer, "step", "optimiser"),
        (learner.gradient_step, "_clip", "optimiser"),
        (learner, "minibatch", "drawing samples"),
        (torch.Tensor, "backward", "backward"),
    ]
    if agent.native_rollout is not None:
        places.append((agent.native_rollout, "fill", "native rollout"))
    patches = [
        patch.object(owner, name, clock.timed(phase, getattr(owner, name)))
        for owner, name, phase in places
    ]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()
