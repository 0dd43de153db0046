"""sekai."""
from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper
from sekai.error import *
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from sekai.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics, TimeLimit
from sekai.registry import all_specs, make, register, register_namespace, spec
from sekai.vector import AsyncVecEnv, SyncVecEnv
