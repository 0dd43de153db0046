"""Reinforcement learning: PPO, A2C, DDPG, TD3, SAC, DQN, IQL, CQL, BC, MADDPG, QMIX agents."""

from sekai.storage.optional import optional_import

for _package in ("torch", "safetensors"):
    optional_import(_package, "train", "sekai.training")

# ruff: noqa: E402 (the packages are checked before modules import them)
from sekai.policy.files import ModelFileError
from sekai.policy.load import load_policy
from sekai.policy.settings import PolicySettings
from sekai.training.a2c import A2C, A2CSettings
from sekai.training.agent import Agent, DivergedError
from sekai.training.agent_settings import AgentSettings
from sekai.training.bc import BC, BCSettings
from sekai.training.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    Evaluate,
    MLflowTracker,
    ProgressBar,
    Track,
    WandbTracker,
    latest_checkpoint,
)
from sekai.training.cql import CQL, CQLSettings
from sekai.training.ddpg import DDPG, DDPGSettings
from sekai.training.dqn import DQN, DQNSettings
from sekai.training.iql import IQL, IQLSettings
from sekai.training.maddpg import MADDPG, MADDPGSettings
from sekai.training.policies.actor_critic import register_backbone
from sekai.training.ppo import PPO, PPOSettings
from sekai.training.qmix import QMIX, QMIXSettings
from sekai.training.ray.fit_many import Fitted, fit_many
from sekai.training.recurrent_ppo import RecurrentPPO, RecurrentPPOSettings
from sekai.training.replay_dataset import ReplayDataset, ReplayFileError
from sekai.training.sac import SAC, SACSettings
from sekai.training.td3 import TD3, TD3Settings
from sekai.training.trained_policy import RecurrentPolicy, TrainedPolicy
from sekai.training.vessel import SeedSetError, TrainingVessel

__all__ = [
    "A2C",
    "BC",
    "CQL",
    "DDPG",
    "DQN",
    "IQL",
    "MADDPG",
    "PPO",
    "QMIX",
    "SAC",
    "TD3",
    "A2CSettings",
    "Agent",
    "AgentSettings",
    "BCSettings",
    "CQLSettings",
    "Callback",
    "Checkpoint",
    "DDPGSettings",
    "DQNSettings",
    "DivergedError",
    "EarlyStopping",
    "Evaluate",
    "Fitted",
    "IQLSettings",
    "MADDPGSettings",
    "MLflowTracker",
    "ModelFileError",
    "PPOSettings",
    "PolicySettings",
    "ProgressBar",
    "QMIXSettings",
    "RecurrentPPO",
    "RecurrentPPOSettings",
    "RecurrentPolicy",
    "ReplayDataset",
    "ReplayFileError",
    "SACSettings",
    "SeedSetError",
    "TD3Settings",
    "Track",
    "TrainedPolicy",
    "TrainingVessel",
    "WandbTracker",
    "fit_many",
    "latest_checkpoint",
    "load_policy",
    "register_backbone",
]
