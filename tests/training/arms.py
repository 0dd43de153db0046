"""Two arms to choose from: small envs whose best choice is known in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box, Discrete

Array = NDArray[np.float32]
Path = tuple[float, ...]

RISKY, SAFE = 0, 1


class Arms(Env[Array, Any]):
    """Choose an arm at first, and see its rewards come in.

    Observation: whether the choice is still to come, and whether the risky arm was chosen.
    Action: 0 for the risky arm, 1 for the safe one; later ones do nothing.
    Reward: the next of a path that was drawn from those of the arm.
    Terminates: at the end of the path.
    Truncates: never.
    """

    def __init__(self, risky: Sequence[Path], safe: Path) -> None:
        self.paths = {RISKY: list(risky), SAFE: [safe]}
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)
        self.action_space = Discrete(2)
        self._path: list[float] | None = None
        self._arm = SAFE

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Array]:
        self._set_rng(seed)
        self._path = None
        return ResetResult(np.array([1.0, 0.0], np.float32), {})

    def step(self, action: Any) -> StepResult[Array]:
        chooses = self._path is None
        if self._path is None:
            self._arm = int(action)
            choices = self.paths[self._arm]
            self._path = list(choices[int(self.rng.integers(len(choices)))])
        reward = self._path.pop(0)
        seen = np.array([0.0, float(self._arm == RISKY)], np.float32)
        return StepResult(seen, reward, not self._path, False, {"chose": chooses})


def likes_risk(agent: Any) -> bool:
    """Whether the agent would rather take the risky arm."""
    return int(agent.predict(np.array([1.0, 0.0], np.float32))) == RISKY
