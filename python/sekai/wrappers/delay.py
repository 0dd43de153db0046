"""Latency: delayed observations or delayed actions."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import numpy as np

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import ObservationWrapper, Wrapper
from sekai.error import InvalidActionError
from sekai.spaces import Box


class DelayObservation(ObservationWrapper[ObsType, ActType, ObsType]):
    """Wrapper that returns observations `steps` steps late; rewards and flags are on time.

    The first observation of an episode is repeated until a later one is due.
    """

    def __init__(self, env: Env[ObsType, ActType], steps: int) -> None:
        super().__init__(env)
        self.steps = _checked_steps(steps)
        self._on_the_way: deque[ObsType] = deque()

    def observation(self, obs: ObsType) -> ObsType:
        """Return the observation that is due."""
        # Copied, because the env may overwrite its array.
        self._on_the_way.append(copy.deepcopy(obs))
        return self._on_the_way.popleft()

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._on_the_way.clear()
        first = (copy.deepcopy(result.observation) for _ in range(self.steps))
        self._on_the_way.extend(first)
        return super()._map_reset(result, seed)


class DelayAction(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that applies each action `steps` steps late.

    Until the first one is due, the env receives `initial`, which is required unless the action
    space is a Box that contains zero.
    """

    def __init__(
        self, env: Env[ObsType, ActType], steps: int, initial: ActType | None = None
    ) -> None:
        super().__init__(env)
        self.steps = _checked_steps(steps)
        self.initial = self._checked_initial(initial)
        self._on_the_way: deque[ActType] = deque()
        self._newest: ActType | None = None

    def _map_action(self, action: ActType) -> ActType:
        # Reject an invalid action now, not when it takes effect.
        reason = self.action_space.mismatch(action)
        if reason is not None:
            raise InvalidActionError(f"action is not in {self.action_space}: {reason}")
        self._newest = copy.deepcopy(action)
        return self._on_the_way[0] if self._on_the_way else self._newest

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        # The queue advances only after the step: it may have raised.
        if self.steps:
            self._on_the_way.popleft()
            self._on_the_way.append(self._newest)  # type: ignore[arg-type]
        return result

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._on_the_way.clear()
        self._on_the_way.extend(copy.deepcopy(self.initial) for _ in range(self.steps))
        return result

    def _checked_initial(self, initial: ActType | None) -> Any:
        space = self.env.action_space
        if initial is None and isinstance(space, Box):
            initial = np.zeros(space.shape, space.dtype)  # type: ignore[assignment]
        if initial is None or not space.contains(initial):
            raise ValueError(
                f"DelayAction needs initial, an action in {space} that is applied until "
                f"the first one takes effect; got {initial!r}"
            )
        return initial


def _checked_steps(steps: int) -> int:
    if int(steps) != steps or steps < 0:
        raise ValueError(f"steps must be a non-negative integer, got {steps!r}")
    return int(steps)
