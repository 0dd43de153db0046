"""Raw observations as numbers of the usual size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf, is_action_mask

__all__ = ["Gather", "Inputs"]

LEARNT_ROWS = 1024
"""Observations that are learnt from at once: windows that are looked up need not all fit."""


class Gather(Protocol):
    """Looks up what an observation has only the number of."""

    def leaves(self, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
        """What an observation has when it was looked up."""

    def __call__(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The observations with it."""


class Inputs(nn.Module):
    """Turns each array of an observation into floats: measured numbers scaled, names one-hot.

    Masks of actions are for heads, and left out here.
    """

    def __init__(
        self,
        leaves: Mapping[str, Leaf],
        normaliser: ObservationNormaliser | None,
        gather: Gather | None = None,
    ) -> None:
        super().__init__()
        self.names = [name for name in leaves if not is_action_mask(name)]
        """What observations must have."""
        read = leaves if gather is None else gather.leaves(leaves)
        self.leaves = {name: leaf for name, leaf in read.items() if not is_action_mask(name)}
        """What comes out."""
        self.normaliser = normaliser
        self.gather = gather

    def forward(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Floats of each leaf, in the shape of the leaf."""
        if self.gather is not None:
            observations = self.gather(observations)
        return {name: self._one(name, observations[name]) for name in self.leaves}

    @torch.no_grad()
    def learn(self, observations: Mapping[str, Tensor]) -> None:
        """Let the normaliser, if there is one, take in a batch."""
        if self.normaliser is None:
            return
        count = len(observations[self.names[0]])
        for first in range(0, count, LEARNT_ROWS):
            part = {name: observations[name][first : first + LEARNT_ROWS] for name in self.names}
            self.normaliser.learn(part if self.gather is None else self.gather(part))

    def _one(self, name: str, values: Tensor) -> Tensor:
        leaf = self.leaves[name]
        if not leaf.is_measured:
            numbers = values.long().reshape(len(values), -1)
            if leaf.starts:
                numbers = numbers - torch.tensor(leaf.starts)
            picks = numbers.unbind(-1)
            hot = [
                nn.functional.one_hot(pick, count)
                for pick, count in zip(picks, leaf.choices, strict=True)
            ]
            return torch.cat(hot, dim=-1).float()
        numbers = values.float()
        return numbers if self.normaliser is None else self.normaliser(name, numbers)
