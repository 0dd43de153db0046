"""Agents that learn: PPO, A2C, DDPG, SAC, MADDPG, QMIX and what they are made of."""

from sekai.training.a2c import A2C, A2CSettings
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks.callback import Callback
from sekai.training.ddpg import DDPG, DDPGSettings
from sekai.training.maddpg import MADDPG, MADDPGSettings
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.ppo import PPO, PPOSettings
from sekai.training.qmix import QMIX, QMIXSettings
from sekai.training.sac import SAC, SACSettings

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
    "DDPGSettings",
    "MADDPGSettings",
    "PPOSettings",
    "PolicySettings",
    "QMIXSettings",
    "SACSettings",
]
