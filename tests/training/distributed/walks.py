"""A small env in Python whose episodes end, and are cut off, by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box, Discrete, Space


class Walk(Env[Any, Any]):
    """Numbers that go their way by chance, pushed a little by what is done.

    Observation: three numbers.
    Action: one of three, of which the infos forbid one, or a number.
    Reward: the first number, less what the push costs.
    Terminates: by chance.
    Truncates: by chance.
    """

    def __init__(self, picks: bool = False) -> None:
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        acts: Space[Any] = Discrete(3) if picks else Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = acts
        self.masks_actions = picks
        self.place = np.zeros(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self.place = self.rng.normal(size=3)
        return ResetResult(self.place.astype(np.float32), self._told())

    def step(self, action: Any) -> StepResult[Any]:
        push = float(np.ravel(action)[0])
        if self.masks_actions:
            assert self._told()["action_mask"][int(push)], "what is forbidden is not done"
        self.place = 0.9 * self.place + 0.1 * push + 0.3 * self.rng.normal(size=3)
        fate = self.rng.random()
        reward = float(self.place[0]) - 0.1 * push * push
        seen = self.place.astype(np.float32)
        return StepResult(seen, reward, fate < 0.05, 0.05 <= fate < 0.12, self._told())

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"is_high": bool(self.place[0] > 0)}
        if self.masks_actions:
            told["action_mask"] = np.arange(3) != int(self.place[1] > 0)
        return told


def walk() -> Walk:
    return Walk()


def picking_walk() -> Walk:
    return Walk(picks=True)
