"""What an action is worth, judged by what was understood of an observation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.policies.backbone import Backbone, Features
from sekai.training.policies.heads import SMALL
from sekai.training.policies.layers import linear
from sekai.training.policies.policy_settings import PolicySettings

__all__ = ["ActionCritic"]


class ActionCritic(nn.Module):
    """Observations and chosen numbers to what the future is worth.

    Where there are slots, each slot's number is read beside what was understood of that slot, by
    the same weights for all, and the mean over the slots in use is judged: the order of the assets
    makes no difference. Numbers that are left over are read beside all together.
    """

    def __init__(self, body: Backbone, actions: ActionMap, settings: PolicySettings) -> None:
        super().__init__()
        self.body = body
        slots = int(getattr(body, "slots", 0))
        self.slots = slots if actions.size >= slots else 0
        width, rest = body.width, actions.size - self.slots
        self.each = _bent(width, 1, width) if self.slots else None
        hidden = settings.hidden[-1] if settings.hidden else width
        self.both = _bent(2 * width if self.slots else width, rest, hidden)
        # Nearly indifferent at first: an actor would climb a slope that means nothing.
        self.judge = linear(hidden, 1, SMALL)

    def forward(self, inputs: Mapping[str, Tensor], chosen: Tensor) -> Tensor:
        """One number for each row: batch by one."""
        features = self.body(inputs)
        parts = [features.whole]
        if self.each is not None and features.slots is not None:
            parts.append(self._over_slots(self.each, features, features.slots, chosen))
        parts.append(chosen[..., self.slots :])
        value: Tensor = self.judge(self.both(torch.cat(parts, dim=-1)))
        return value

    def _over_slots(
        self, each: nn.Module, features: Features, slots: Tensor, chosen: Tensor
    ) -> Tensor:
        numbers = chosen[..., : self.slots].unsqueeze(-1)
        read: Tensor = each(torch.cat([slots, numbers], dim=-1))
        if features.mask is None:
            return read.mean(dim=-2)
        used = features.mask.unsqueeze(-1).to(read.dtype)
        return (read * used).sum(dim=-2) / used.sum(dim=-2).clamp_min(1.0)


def _bent(understood: int, numbers: int, width: int) -> nn.Sequential:
    """A layer that reads chosen numbers after what was understood.

    What is best lies between too little and too much: a hill. Layers of tanh without biases are
    odd functions, in which hills are learnt last; this layer has bends everywhere from the
    beginning, and reads few numbers as loudly as all the rest.
    """
    layer = linear(understood + numbers, width)
    with torch.no_grad():
        if numbers:
            layer.weight[:, understood:].normal_(0.0, math.sqrt(2.0 / numbers))
        layer.bias.uniform_(-1.0, 1.0)
    return nn.Sequential(layer, nn.SiLU())
