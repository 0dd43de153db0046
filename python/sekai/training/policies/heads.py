"""From what was understood to how likely each action is, or to what the future is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.policies.backbone import Backbone, Features
from sekai.training.policies.layers import linear

__all__ = ["ChoiceHead", "NumberHead", "ValueHead", "used_numbers"]

SMALL = 0.01
"""Heads of policies begin nearly indifferent."""

FORBIDDEN = -1e9
"""The logit of what a mask forbids."""


class ChoiceHead(nn.Module):
    """Logits of every pick.

    Where there is one pick for each slot, from equally many, all slots are decided on by the same
    weights. Of a slot that is not in use the middle one is picked, always: for tilts, as much as
    before.
    """

    middle: Tensor

    def __init__(self, body: Backbone, actions: ActionMap) -> None:
        super().__init__()
        kinds = set(actions.choices)
        self.slots = body.slots if len(actions.choices) == body.slots and len(kinds) == 1 else 0
        width = actions.choices[0] if self.slots else sum(actions.choices)
        self.choose = linear(body.width, width, SMALL)
        middle = torch.arange(width) == width // 2
        self.register_buffer("middle", middle, persistent=False)

    def forward(self, features: Features, allowed: Tensor | None = None) -> Tensor:
        """Logits; what is not allowed is out of the question."""
        if not self.slots or features.slots is None:
            return _without(self.choose(features.whole), allowed)
        logits = self.choose(features.slots)
        if allowed is not None:
            allowed = allowed.reshape(logits.shape)
        if features.mask is not None:
            everything = torch.ones_like(logits, dtype=torch.bool)
            allowed = self._settled(features.mask, everything if allowed is None else allowed)
        return _without(logits, allowed).flatten(1)

    def _settled(self, used: Tensor, allowed: Tensor) -> Tensor:
        """What is allowed, and of slots that are not in use the middle alone, if it is."""
        settled = allowed & self.middle
        is_open = used.unsqueeze(-1) | ~settled.any(-1, keepdim=True)
        return torch.where(is_open, allowed, settled)


class NumberHead(nn.Module):
    """Means and standard deviations of numbers near [-1, 1].

    Where there are slots, each slot's number comes from what was understood of that slot, by the
    same weights for all: who changes the order of the assets changes the order of the weights. What
    is left over, cash as a rule, comes from all together.
    """

    def __init__(self, body: Backbone, actions: ActionMap, spread: float) -> None:
        super().__init__()
        self.slots = slots_of_numbers(body, actions)
        self.is_masked = bool(self.slots) and body.mask_name is not None
        self.size = actions.size
        rest = actions.size - self.slots
        self.each = linear(body.width, 1, SMALL) if self.slots else None
        self.rest = linear(body.width, rest, SMALL) if rest else None
        own = 1 if self.slots else 0
        self.log_spread = nn.Parameter(torch.full((own + rest,), math.log(spread)))

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """Means and standard deviations, and where slots are masked which of them count."""
        parts, spreads = [], []
        if self.each is not None and features.slots is not None:
            parts.append(self.each(features.slots).squeeze(-1))
            spreads.append(self.log_spread[:1].expand(self.slots))
        if self.rest is not None:
            parts.append(self.rest(features.whole))
            spreads.append(self.log_spread[1:] if self.slots else self.log_spread)
        means = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        spread = (spreads[0] if len(spreads) == 1 else torch.cat(spreads)).exp().expand_as(means)
        if not self.is_masked or features.mask is None:
            return means, spread
        used = used_numbers(features.mask, means.shape[-1])
        return means.masked_fill(~used, 0.0), spread, used

    def used(self, body: Backbone, observations: Mapping[str, Tensor]) -> Tensor | None:
        """Which numbers of an action count, by what is observed; None for all."""
        if not self.is_masked or body.mask_name is None:
            return None
        return used_numbers(observations[body.mask_name] != 0, self.size)


class ValueHead(nn.Module):
    """What the future is worth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.judge = linear(width, 1, 1.0)

    def forward(self, features: Features) -> Tensor:
        """One number for each row."""
        value: Tensor = self.judge(features.whole)
        return value


def slots_of_numbers(body: Backbone, actions: ActionMap) -> int:
    """How many numbers of an action belong to slots: all, or all but one, which is cash."""
    return body.slots if actions.size in (body.slots, body.slots + 1) else 0


def used_numbers(mask: Tensor, width: int) -> Tensor:
    """Which of `width` numbers count: those of slots in use, and what comes after the slots."""
    return torch.cat([mask, mask.new_ones(len(mask), width - mask.shape[1])], dim=-1)


def _without(logits: Tensor, allowed: Tensor | None) -> Tensor:
    return logits if allowed is None else logits.masked_fill(~allowed, FORBIDDEN)
