"""Let observations arrive late, or actions take effect late, as they do on a real venue."""

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

__all__ = ["DelayAction", "DelayObservation"]


class DelayObservation(ObservationWrapper[ObsType, ActType, ObsType]):
    """Shows observations `steps` steps late; rewards and flags stay on time.

    Until the first one has arrived, the observation of the reset is shown.
    """

    def __init__(self, env: Env[ObsType, ActType], steps: int) -> None:
        super().__init__(env)
        self.steps = _checked_steps(steps)
        self._on_the_way: deque[ObsType] = deque()

    def observation(self, obs: ObsType) -> ObsType:
        """The observation that arrives now."""
        # Copied, because the env may go on writing into the array it gave us.
        self._on_the_way.append(copy.deepcopy(obs))
        return self._on_the_way.popleft()

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._on_the_way.clear()
        first = (copy.deepcopy(result.observation) for _ in range(self.steps))
        self._on_the_way.extend(first)
        return super()._map_reset(result, seed)


class DelayAction(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Gives the env each action `steps` steps late.

    Until the first one takes effect the env is given `initial`, which must be named unless the
    action space is a Box that contains zero.
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
        # A bad action is refused when it is given, not when it would take effect.
        reason = self.action_space.mismatch(action)
        if reason is not None:
            raise InvalidActionError(f"the action does not fit {self.action_space}: {reason}")
        self._newest = copy.deepcopy(action)
        return self._on_the_way[0] if self._on_the_way else self._newest

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        # The queue moves only now: had the env refused the step, nothing would have moved.
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
                f"DelayAction needs initial=..., an action of {space} that is in effect until "
                f"the first one arrives; was {initial!r}"
            )
        return initial


def _checked_steps(steps: int) -> int:
    if int(steps) != steps or steps < 0:
        raise ValueError(f"steps must be a whole number of at least 0, was {steps!r}")
    return int(steps)
