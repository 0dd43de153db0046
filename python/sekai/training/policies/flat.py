"""Read all numbers of an observation in a row."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sekai.training.observations import Leaf, is_action_mask
from sekai.training.policies.backbone import Backbone, Features
from sekai.training.policies.layers import layers
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["FlatBackbone"]


class FlatBackbone(Backbone):
    """Plain layers over everything: right where nothing is known of what the numbers mean."""

    def __init__(self, leaves: Mapping[str, Leaf], settings: PolicySettings) -> None:
        super().__init__()
        self.names = [name for name in leaves if not is_action_mask(name)]
        width = sum(leaves[name].width for name in self.names)
        self.body = layers(width, settings.hidden, settings)
        self.width = settings.hidden[-1] if settings.hidden else width

    def forward(self, inputs: Mapping[str, Tensor]) -> Features:
        """Understand a batch."""
        parts = [inputs[name].flatten(1) if inputs[name].dim() > 1 else inputs[name].unsqueeze(1)
                 for name in self.names]  # fmt: skip
        return Features(self.body(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)))
