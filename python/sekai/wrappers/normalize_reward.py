"""Reward normalization by the variance of discounted returns."""

from __future__ import annotations

from quant_gym_rs._core import RewardScale
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper


class NormalizeReward(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that divides rewards by the running standard deviation of the discounted return.

    The mean is not subtracted, so that rewards keep their sign. Set `learning` to False to freeze
    the statistics.
    """

    def __init__(
        self, env: Env[ObsType, ActType], gamma: float = 0.99, epsilon: float = 1e-8
    ) -> None:
        super().__init__(env)
        self.gamma = checked_gamma(gamma)
        self.learning = True
        self.scale = RewardScale(1, gamma, epsilon)

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        return StepResult(
            result.observation,
            self.scale.scale_one(result.reward, result.done, self.learning),
            result.terminated,
            result.truncated,
            result.info,
        )

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self.scale.restart()
        return result


def checked_gamma(gamma: float) -> float:
    """Return the discount factor, or raise `ValueError` if it is outside [0, 1]."""
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must be between 0 and 1, got {gamma}")
    return gamma
