"""Actors whose numbers never leave [-1, 1]."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.heads import NumberHead
from sekai.training.randomness import normal

__all__ = ["PreciseActor", "SquashedActor"]

NARROWEST, WIDEST = -5.0, 2.0
"""Logarithms that spreads before squashing stay between."""


class PreciseActor(nn.Module):
    """Observations to exactly one choice."""

    def __init__(self, body: Backbone, actions: ActionMap, spread: float) -> None:
        super().__init__()
        self.body = body
        self.head = _head(body, actions, spread)

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Numbers from -1 to 1."""
        numbers: Tensor = self.head(self.body(inputs))[0]
        return torch.tanh(numbers)


class SquashedActor(nn.Module):
    """Observations to normal numbers that are yet to be squashed; spreads depend on them too."""

    def __init__(self, body: Backbone, actions: ActionMap, spread: float) -> None:
        super().__init__()
        self.body = body
        self.head = _head(body, actions, spread)
        self.widen = _head(body, actions, spread)

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Means and standard deviations before squashing."""
        features = self.body(inputs)
        means, spread, *_ = self.head(features)
        wider = self.widen(features)[0]
        return means, (spread.log() + wider).clamp(NARROWEST, WIDEST).exp()

    def choose(self, inputs: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """Numbers from -1 to 1."""
        means, spread = self(inputs)
        if not deterministic:
            means = means + spread * normal(means.shape)
        return torch.tanh(means)


def _head(body: Backbone, actions: ActionMap, spread: float) -> NumberHead:
    head = NumberHead(body, actions, spread)
    # Its own spread stays what it was at first: nothing is learnt of it here.
    head.log_spread.requires_grad_(False)
    return head
