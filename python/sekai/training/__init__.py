"""Agents that learn: PPO, A2C, DDPG, SAC and what they are made of."""

import sekai.training.packages  # noqa: F401 (says what is missing, before others do)
from sekai.training.a2c import A2C, A2CSettings
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    Evaluate,
    ProgressBar,
    Track,
    latest_checkpoint,
)
from sekai.training.ddpg import DDPG, DDPGSettings
from sekai.training.descent import DivergedError
from sekai.training.distributed.fit_many import Fitted, fit_many
from sekai.training.kept_file import ModelFileError
from sekai.training.load_policy import load_policy
from sekai.training.maddpg import MADDPG, MADDPGSettings
from sekai.training.policies.build import register_backbone
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.ppo import PPO, PPOSettings
from sekai.training.qmix import QMIX, QMIXSettings
from sekai.training.sac import SAC, SACSettings
from sekai.training.trained_policy import TrainedPolicy
from sekai.training.vessel import TrainingVessel
from sekai.training.vessel_seeds import SeedSetError

__all__ = [
    "A2C",
    "DDPG",
    "MADDPG",
    "PPO",
    "QMIX",
    "SAC",
    "A2CSettings",
    "Agent",
    "AgentSettings",
    "Callback",
    "Checkpoint",
    "DDPGSettings",
    "DivergedError",
    "EarlyStopping",
    "Evaluate",
    "Fitted",
    "MADDPGSettings",
    "ModelFileError",
    "PPOSettings",
    "PolicySettings",
    "ProgressBar",
    "QMIXSettings",
    "SACSettings",
    "SeedSetError",
    "Track",
    "TrainedPolicy",
    "TrainingVessel",
    "fit_many",
    "latest_checkpoint",
    "load_policy",
    "register_backbone",
]
