"""Built-in wrappers, one per file."""

from sekai.wrappers.action_mask import ActionMask
from sekai.wrappers.auto_reset import AutoReset
from sekai.wrappers.clip_action import ClipAction
from sekai.wrappers.delay import DelayAction, DelayObservation
from sekai.wrappers.episode_statistics import RecordEpisodeStatistics
from sekai.wrappers.flatten_observation import FlattenObservation
from sekai.wrappers.frame_stack import FrameStackObservation
from sekai.wrappers.multi_agent import (
    MultiAgentOrderEnforcing,
    MultiAgentTimeLimit,
    MultiAgentValidateAction,
)
from sekai.wrappers.normalize_observation import NormalizeObservation
from sekai.wrappers.normalize_reward import NormalizeReward
from sekai.wrappers.order_enforcing import OrderEnforcing
from sekai.wrappers.rescale_action import RescaleAction
from sekai.wrappers.time_limit import TimeLimit
from sekai.wrappers.transform import TransformObservation, TransformReward
from sekai.wrappers.validate_action import ValidateAction

__all__ = [
    "ActionMask",
    "AutoReset",
    "ClipAction",
    "DelayAction",
    "DelayObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "MultiAgentOrderEnforcing",
    "MultiAgentTimeLimit",
    "MultiAgentValidateAction",
    "NormalizeObservation",
    "NormalizeReward",
    "OrderEnforcing",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
    "ValidateAction",
]
