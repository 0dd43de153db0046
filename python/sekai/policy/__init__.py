"""Policies of saved agents: model files and inference without torch."""

from sekai.policy.base import SpacePolicy
from sekai.policy.files import ModelFileError
from sekai.policy.load import load_policy
from sekai.policy.native import NativePolicy
from sekai.policy.settings import PolicySettings

__all__ = ["ModelFileError", "NativePolicy", "PolicySettings", "SpacePolicy", "load_policy"]
