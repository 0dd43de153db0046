"""Vector envs: many envs that act together, in this process, an event loop or other processes."""

from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.autoreset import Autoreset
from sekai.vector.faults import OnError, Restart
from sekai.vector.infos import Column, Infos, stack_infos
from sekai.vector.make_vec import make_vec
from sekai.vector.multi_agent import (
    MultiAgentVecEnv,
    MultiAgentVecResetResult,
    MultiAgentVecStepResult,
)
from sekai.vector.native import NativeBatch, NativeVecEnv
from sekai.vector.proc import ProcVecEnv
from sekai.vector.seeding import env_seed
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import StepBuffers, VecEnv

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
    "OnError",
    "ProcVecEnv",
    "Restart",
    "StepBuffers",
    "SyncVecEnv",
    "VecEnv",
    "env_seed",
    "make_vec",
    "stack_infos",
]
