"""Envs that report action masks in their infos alone, and refuse masked actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.error import InvalidActionError
from sekai.spaces import Box, Discrete, MultiDiscrete, Space
from tests.training.optima.batch import NumpyBatch

PICKS = Discrete(4)
SEVERAL = MultiDiscrete([3, 2])
LENGTH = 9


def drawn_mask(rng: np.random.Generator, space: Space[Any]) -> Any:
    """A mask that allows something of each pick; sometimes none at all."""
    if rng.random() < 0.2:
        return None
    counts = [space.n] if isinstance(space, Discrete) else list(np.ravel(space.nvec))  # type: ignore[attr-defined]
    masks = [np.asarray(rng.random(int(count)) < 0.4, np.int8) for count in counts]
    for mask in masks:
        mask[rng.integers(len(mask))] = 1
    return masks[0] if isinstance(space, Discrete) else tuple(masks)


def check(mask: Any, action: Any) -> None:
    """Refuse an action that a mask forbids."""
    if mask is None:
        return
    masks = mask if isinstance(mask, tuple) else (mask,)
    if not all(own[int(pick)] for own, pick in zip(masks, np.ravel(action), strict=True)):
        raise InvalidActionError(f"{action!r} is forbidden by {mask!r}")


def told(mask: Any) -> dict[str, Any]:
    """The info of a mask; nothing where there is none."""
    return {} if mask is None else {"action_mask": mask}


class Barred(Env[Any, Any]):
    """Draws a mask at every step, and reports it, if there is one, in `info` alone."""

    def __init__(self, space: Space[Any] = PICKS) -> None:
        self.observation_space = Box(-9.0, 9.0, (2,), np.float32)
        self.action_space = space
        self.actions = 0
        self._mask: Any = None
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._set_rng(seed)
        self._left = LENGTH
        return ResetResult(self._see(), told(self._mask))

    def step(self, action: Any) -> StepResult[Any]:
        check(self._mask, action)
        self.actions += 1
        self._left -= 1
        seen = self._see()
        over = self._left == 0
        return StepResult(seen, float(np.sum(action)), over, False, told(self._mask))

    def _see(self) -> NDArray[np.float32]:
        self._mask = drawn_mask(self.rng, self.action_space)
        return self.rng.normal(size=2).clip(-9, 9).astype(np.float32)


class Stuck(Barred):
    """Allows nothing in the middle of an episode."""

    def _see(self) -> NDArray[np.float32]:
        seen = super()._see()
        self._mask = np.zeros(4, np.int8) if self._left == 5 else np.ones(4, np.int8)
        return seen


class BarredTeam(MultiAgentEnv):
    """The same for two agents, of which one takes one pick and the other two."""

    def __init__(self, spaces: tuple[Space[Any], Space[Any]] = (PICKS, SEVERAL)) -> None:
        self.possible_agents = ["one", "other"]
        self.agents: list[str] = []
        self.observation_spaces = {
            name: Box(-9.0, 9.0, (2,), np.float32) for name in self.possible_agents
        }
        self.action_spaces = dict(zip(self.possible_agents, spaces, strict=True))
        self._masks: dict[str, Any] = {}
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> MAResetResult:
        self._set_rng(seed)
        self.agents = list(self.possible_agents)
        self._left = LENGTH
        return MAResetResult(self._see(), self._told())

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        for name, action in actions.items():
            check(self._masks[name], action)
        self._left -= 1
        acting, cut = list(self.agents), self._left == 0
        seen = self._see()
        paid = float(sum(np.sum(action) for action in actions.values()))
        self.agents = [] if cut else acting
        return MAStepResult(
            seen,
            dict.fromkeys(acting, paid),
            dict.fromkeys(acting, False),
            dict.fromkeys(acting, cut),
            self._told(),
        )

    def _see(self) -> dict[str, Any]:
        self._masks = {
            name: drawn_mask(self.rng, space) for name, space in self.action_spaces.items()
        }
        return {
            name: self.rng.normal(size=2).clip(-9, 9).astype(np.float32)
            for name in self.possible_agents
        }

    def _told(self) -> dict[str, dict[str, Any]]:
        return {name: told(mask) for name, mask in self._masks.items()}


class BarredBatch(NumpyBatch):
    """Many envs as one batch, which reports the masks of all of them as a column."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, episode_steps=LENGTH)
        self.observation_space = Box(0.0, 1.0, (1,), np.float32)
        self.action_space = PICKS
        self.actions = 0

    def masks(self) -> NDArray[np.int8]:
        barred = (self.clock + np.arange(self.num_envs)) % 4
        masks: NDArray[np.int8] = (np.arange(4) != barred[:, None]).astype(np.int8)
        return masks

    def infos(self) -> dict[str, NDArray[Any]]:
        return {"action_mask": self.masks()}

    def _observe(self) -> NDArray[np.float32]:
        return (self.clock[:, None] % LENGTH / LENGTH).astype(np.float32)

    def _earn(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        masks = self.masks()
        if not masks[np.arange(self.num_envs), actions].all():
            raise InvalidActionError("a masked action was taken")
        self.actions += self.num_envs
        return np.asarray(actions, np.float64)
