"""Vector envs: many envs that act together, in this process, an event loop or other processes."""

from sekai.vector.asyncio_env import AsyncVecEnv
from sekai.vector.infos import stack_infos
from sekai.vector.sync import SyncVecEnv
from sekai.vector.vec_env import StepBuffers, VecEnv

__all__ = ["AsyncVecEnv", "StepBuffers", "SyncVecEnv", "VecEnv", "stack_infos"]
