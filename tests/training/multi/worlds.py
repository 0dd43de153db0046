"""Worlds in which agents come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult
from sekai.spaces import Box, Discrete, Space

AGENTS = ["a", "b", "c"]


class Coming(MultiAgentEnv):
    """Agents end, are cut off, and stay away for a while, all by chance.

    Observation: the step, and a number of the agent's own.
    Action: one of two, or a number; `heard` keeps who acted when.
    Reward: by chance.
    Terminates: for an agent, by chance.
    Truncates: for an agent, by chance; for all after 12 steps.
    """

    def __init__(self, numbers: bool = False, mixed: bool = False) -> None:
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {name: Box(-9.0, 99.0, (2,), np.float32) for name in AGENTS}
        acts: Space[Any] = Box(-1.0, 1.0, (1,), np.float32) if numbers else Discrete(2)
        self.action_spaces = dict.fromkeys(AGENTS, acts)
        if mixed:
            self.action_spaces["c"] = Discrete(3)
            self.observation_spaces["c"] = Box(-9.0, 99.0, (3,), np.float32)
        self.away: list[str] = []
        self.steps = 0
        self.told: list[tuple[list[str], MAStepResult, list[str]]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        self._set_rng(seed)
        self.steps, self.away, self.agents = 0, [], list(AGENTS)
        return MAResetResult(self._seen(self.agents), {name: {} for name in AGENTS})

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        acting = list(self.agents)
        assert sorted(actions) == sorted(acting)
        self.steps += 1
        fate = {name: self.rng.random() for name in acting}
        ended = {name: fate[name] < 0.12 for name in acting}
        cut = {name: 0.12 <= fate[name] < 0.2 or self.steps == 12 for name in acting}
        staying = [name for name in acting if not ended[name] and not cut[name]]
        leaving = [name for name in staying if fate[name] > 0.75][: max(0, len(staying) - 1)]
        back = [name for name in self.away if self.rng.random() < 0.5]
        gone = [name for name in self.away if name not in back]
        is_over = not staying
        self.away = [] if is_over else [*gone, *leaving]
        left = [name for name in staying if name not in leaving] + back
        self.agents = [] if is_over else [name for name in AGENTS if name in left]
        rewards = {name: float(self.rng.normal()) for name in acting}
        seen = self._seen({*acting, *self.agents})
        result = MAStepResult(seen, rewards, ended, cut, {name: {} for name in acting})
        self.told.append((acting, result, list(self.agents)))
        return result

    def _seen(self, names: Any) -> dict[str, Any]:
        return {
            name: np.array(
                [self.steps, *self.rng.normal(size=self.observation_spaces[name].shape[0] - 1)],  # type: ignore[index]
                np.float32,
            )
            for name in AGENTS
            if name in names
        }
