"""Agents that learn: PPO, A2C and what they are made of."""

from sekai.training.a2c import A2C, A2CSettings
from sekai.training.agent import Agent
from sekai.training.agent_settings import AgentSettings
from sekai.training.callbacks.callback import Callback
from sekai.training.policies.build import register_backbone
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.ppo import PPO, PPOSettings

__all__ = [
    "A2C",
    "PPO",
    "A2CSettings",
    "Agent",
    "AgentSettings",
    "Callback",
    "PPOSettings",
    "PolicySettings",
    "register_backbone",
]
