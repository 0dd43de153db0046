"""A network that computes every row as it would be computed among all of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sekai.training.randomness import Share, share_drawn
from sekai.training.trained_policy import Chooser

__all__ = ["Padded", "probe"]


class Padded:
    """Lets a network see rows for all envs, of which the others repeat those of some.

    The last bits of a product of matrices can depend on how many rows there are, when they are few.
    """

    def __init__(self, network: Chooser, share: Share) -> None:
        self.share = share
        self._choose, self._leanings = network.choose, network.leanings

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do; what is random is drawn for all."""
        with share_drawn(None):
            return self._own(self._choose(self._all(observations), deterministic))

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """The numbers that choices are made of."""
        return self._own(self._leanings(self._all(observations)))

    def _all(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        share = self.share
        places = (torch.arange(share.whole) - share.first) % share.count
        return {name: rows[places] for name, rows in observations.items()}

    def _own(self, rows: Tensor) -> Tensor:
        return rows[self.share.first : self.share.end]


def probe(observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Observations like these, of which no two are alike in what is measured."""
    noise = torch.Generator().manual_seed(0)
    return {
        name: rows + torch.randn(rows.shape, generator=noise, dtype=rows.dtype)
        if rows.is_floating_point()
        else rows
        for name, rows in observations.items()
    }
