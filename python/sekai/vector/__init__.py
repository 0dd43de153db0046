"""Vector envs: many envs stepped together in one process, an event loop or worker processes."""

from sekai.core.autoreset import Autoreset
from sekai.core.result import VecResetResult, VecStepResult
from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.batching import StepBuffers
from sekai.vector.group import OnError, Restart
from sekai.vector.infos import Column, Infos, stack_infos
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)
from sekai.vector.native import NativeBatch, NativeVecEnv
from sekai.vector.proc import PipeVecEnv, ProcVecEnv
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv, env_seed
from sekai.vector.wrapper import (
    NormalizeVecObservation,
    NormalizeVecReward,
    RecordVecEpisodeStatistics,
    VecActionWrapper,
    VecObservationWrapper,
    VecRewardWrapper,
    VecWrapper,
)

__all__ = [
    "AsyncVecEnv",
    "Autoreset",
    "Column",
    "Infos",
    "MultiAgentVecEnv",
    "MultiAgentVecResetResult",
    "MultiAgentVecStepResult",
    "NativeBatch",
    "NativeVecEnv",
    "NormalizeVecObservation",
    "NormalizeVecReward",
    "OnError",
    "PipeVecEnv",
    "ProcVecEnv",
    "RecordVecEpisodeStatistics",
    "Restart",
    "StepBuffers",
    "SyncVecEnv",
    "VecActionWrapper",
    "VecEnv",
    "VecObservationWrapper",
    "VecResetResult",
    "VecRewardWrapper",
    "VecStepResult",
    "VecWrapper",
    "env_seed",
    "make_vec",
    "stack_infos",
]
