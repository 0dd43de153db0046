"""A task whose optimum is known, and how agents learn it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sekai.training import Agent

__all__ = ["Recipe", "Task"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an algorithm learns a task."""

    envs: int
    steps: int
    """Of single envs."""

    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be learnt, how well, and by whom."""

    name: str
    make: Callable[[int], Any]
    """So many envs."""

    judge: Callable[[Agent], float]
    """The share of the optimum that an agent which has learnt gets."""

    recipes: Mapping[type[Agent], Recipe]

    enough: float
    """The share that counts as having found it."""

    seeds: int = 5
    """How many are tried."""

    found_by: float = 0.5
    """The share of seeds that have to find it: half of an odd number, if the median has to."""

    def run(self, kind: type[Agent], seed: int, time: float = 1.0) -> float:
        """Learn, for a share of the usual time, and tell the share of the optimum."""
        recipe = self.recipes[kind]
        agent = kind(self.make(recipe.envs), seed=seed, **recipe.settings)
        return self.judge(agent.fit(int(time * recipe.steps)))

    def needed(self, seeds: int) -> int:
        """How many of so many seeds have to find the optimum."""
        return math.ceil(self.found_by * seeds - 1e-9)

    def found(self, shares: Sequence[float]) -> int:
        """How many seeds found the optimum."""
        return sum(share >= self.enough for share in shares)
