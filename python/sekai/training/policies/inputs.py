"""Raw observations as numbers of the usual size."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sekai.training.normalisation import ObservationNormaliser
from sekai.training.observations import Leaf

__all__ = ["Inputs"]


class Inputs(nn.Module):
    """Turns each array of an observation into floats: measured numbers scaled, names one-hot."""

    def __init__(
        self, leaves: Mapping[str, Leaf], normaliser: ObservationNormaliser | None
    ) -> None:
        super().__init__()
        self.leaves = dict(leaves)
        self.normaliser = normaliser

    def forward(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Floats of each leaf, in the shape of the leaf."""
        return {name: self._one(name, observations[name]) for name in self.leaves}

    def _one(self, name: str, values: Tensor) -> Tensor:
        leaf = self.leaves[name]
        if not leaf.is_measured:
            picks = values.long().reshape(len(values), -1).unbind(-1)
            hot = [
                nn.functional.one_hot(pick, count)
                for pick, count in zip(picks, leaf.choices, strict=True)
            ]
            return torch.cat(hot, dim=-1).float()
        numbers = values.float()
        return numbers if self.normaliser is None else self.normaliser(name, numbers)
