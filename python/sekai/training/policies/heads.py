"""From what was understood to how likely each action is, or to what the future is worth."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.policies.backbone import Features
from sekai.training.policies.layers import linear

__all__ = ["ChoiceHead", "NumberHead", "ValueHead"]

SMALL = 0.01
"""Heads of policies begin nearly indifferent."""

FORBIDDEN = -1e9
"""The logit of what a mask forbids."""


class ChoiceHead(nn.Module):
    """Logits of every pick."""

    def __init__(self, width: int, actions: ActionMap) -> None:
        super().__init__()
        self.choose = linear(width, sum(actions.choices), SMALL)

    def forward(self, features: Features, mask: Tensor | None = None) -> Tensor:
        """Logits; what the mask forbids is out of the question."""
        logits: Tensor = self.choose(features.whole)
        return logits if mask is None else logits.masked_fill(mask.flatten(1) == 0, FORBIDDEN)


class NumberHead(nn.Module):
    """Means and standard deviations of numbers near [-1, 1].

    Where there are slots, each slot's number comes from what was understood of that slot, by the
    same weights for all: who changes the order of the assets changes the order of the weights. What
    is left over, cash as a rule, comes from all together.
    """

    def __init__(self, width: int, actions: ActionMap, slots: int, spread: float) -> None:
        super().__init__()
        self.slots = slots if actions.size >= slots else 0
        rest = actions.size - self.slots
        self.each = linear(width, 1, SMALL) if self.slots else None
        self.rest = linear(width, rest, SMALL) if rest else None
        own = 1 if self.slots else 0
        self.log_spread = nn.Parameter(torch.full((own + rest,), math.log(spread)))

    def forward(self, features: Features) -> tuple[Tensor, Tensor]:
        """Means and standard deviations."""
        parts, spreads = [], []
        if self.each is not None and features.slots is not None:
            parts.append(self.each(features.slots).squeeze(-1))
            spreads.append(self.log_spread[:1].expand(self.slots))
        if self.rest is not None:
            parts.append(self.rest(features.whole))
            spreads.append(self.log_spread[1 if self.slots else 0 :])
        means = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        spread = spreads[0] if len(spreads) == 1 else torch.cat(spreads)
        return means, spread.exp().expand_as(means)


class ValueHead(nn.Module):
    """What the future is worth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.judge = linear(width, 1, 1.0)

    def forward(self, features: Features) -> Tensor:
        """One number for each row."""
        value: Tensor = self.judge(features.whole)
        return value
