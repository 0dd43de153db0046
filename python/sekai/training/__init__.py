"""Agents that learn: PPO, A2C, DDPG, SAC and what they are made of."""

from sekai.training.a2c import A2C, A2CSettings
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks.callback import Callback
from sekai.training.ddpg import DDPG, DDPGSettings
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.ppo import PPO, PPOSettings
from sekai.training.sac import SAC, SACSettings

__all__ = [
    "A2C",
    "DDPG",
    "PPO",
    "SAC",
    "A2CSettings",
    "Agent",
    "AgentSettings",
    "Callback",
    "DDPGSettings",
    "PPOSettings",
    "PolicySettings",
    "SACSettings",
]
