"""Vector envs: many envs that act together, in this process, an event loop or other processes."""

from sekai.core.result import VecResetResult, VecStepResult
from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.autoreset import Autoreset
from sekai.vector.buffers import StepBuffers
from sekai.vector.faults import OnError, Restart
from sekai.vector.infos import Column, Infos, stack_infos
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)
from sekai.vector.native import NativeBatch, NativeVecEnv
from sekai.vector.normalize import NormalizeVecObservation, NormalizeVecReward
from sekai.vector.pipe import PipeVecEnv
from sekai.vector.proc import ProcVecEnv
from sekai.vector.seeding import env_seed
from sekai.vector.statistics import RecordVecEpisodeStatistics
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import VecEnv
from sekai.vector.wrapper import (
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
