"""Environment API: `Env`, `MultiAgentEnv`, wrappers and step results."""

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import (
    MAResetResult,
    MAStepResult,
    ResetResult,
    StepResult,
    VecResetResult,
    VecStepResult,
)
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper

__all__ = [
    "ActionWrapper",
    "Env",
    "MAResetResult",
    "MAStepResult",
    "MultiAgentEnv",
    "ObservationWrapper",
    "ResetResult",
    "RewardWrapper",
    "StepResult",
    "VecResetResult",
    "VecStepResult",
    "Wrapper",
]
