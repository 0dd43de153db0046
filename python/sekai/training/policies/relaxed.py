"""An actor that picks, through whose picks gradients flow."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.actions import ActionMap
from sekai.training.observations import observed_mask
from sekai.training.policies.backbone import Backbone
from sekai.training.policies.heads import ChoiceHead
from sekai.training.randomness import waits

__all__ = ["RelaxedActor", "one_hot", "picks_of"]


class RelaxedActor(nn.Module):
    """Observations to picks, each a one and zeros, drawn by their probabilities.

    Gradients flow as if the picks were the softmax of noisy logits (Gumbel-softmax, straight
    through).
    """

    def __init__(self, body: Backbone, actions: ActionMap, temperature: float) -> None:
        super().__init__()
        self.body, self.choices, self.temperature = body, actions.choices, temperature
        self.head = ChoiceHead(body, actions)

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """How likely each pick is; what a mask forbids is out of the question."""
        found: Tensor = self.head(self.body(inputs), observed_mask(inputs))
        return found

    def free_logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The logits as they are before a mask forbids some."""
        found: Tensor = self.head(self.body(inputs))
        return found

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Picks that were drawn."""
        parts = torch.split(self.logits(inputs), list(self.choices), dim=-1)
        drawn = [_relaxed(part, self.temperature) for part in parts]
        return torch.cat(drawn, dim=-1)

    def likeliest(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The likeliest picks, as whole numbers."""
        parts = torch.split(self.logits(inputs), list(self.choices), dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)


def one_hot(picks: Tensor, choices: tuple[int, ...]) -> Tensor:
    """Picks as ones and zeros."""
    parts = [nn.functional.one_hot(pick, count)
             for pick, count in zip(picks.unbind(-1), choices, strict=True)]  # fmt: skip
    return torch.cat(parts, dim=-1).float()


def picks_of(hot: Tensor, choices: tuple[int, ...]) -> Tensor:
    """Ones and zeros as picks."""
    parts = torch.split(hot, list(choices), dim=-1)
    return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)


def _relaxed(logits: Tensor, temperature: float) -> Tensor:
    noise = -waits(logits.shape).log()
    soft = torch.softmax((logits + noise) / temperature, dim=-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return hard + soft - soft.detach()
