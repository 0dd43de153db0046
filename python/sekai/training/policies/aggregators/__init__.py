"""What assets learn of each other."""

from __future__ import annotations

from collections.abc import Callable

from sekai.training.policies.aggregators.aggregator import Aggregator
from sekai.training.policies.aggregators.attention import Attention
from sekai.training.policies.aggregators.graph import Graph
from sekai.training.policies.aggregators.pooling import MaxPooling, MeanPooling
from sekai.training.policies.policy_settings import PolicySettings
from sekai.training.policies.slots import Slots

__all__ = ["AGGREGATORS", "Aggregator"]

AGGREGATORS: dict[str, Callable[[Slots, PolicySettings], Aggregator]] = {
    "attention": Attention,
    "graph": Graph,
    "mean": MeanPooling,
    "max": MaxPooling,
}
