"""Networks that compute the same in other processes, and with fewer rows, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sekai.training.distributed.rows import cut_rows
from sekai.training.randomness import Portion, portion_drawn
from sekai.training.trained_policy import Chooser

__all__ = ["Padded", "Probe", "keeps_lanes", "take_weights", "weights_of"]

PROBES = 32
"""Batches that are computed to see whether others compute the same."""


LANES = 16
"""Numbers that the widest registers hold."""


def keeps_lanes(portion: Portion) -> bool:
    """Whether rows of a portion lie in the same lanes of registers as among all rows.

    Exponentials and the like differ in the last bit between whole registers and the rest of an
    array, which is computed number by number.
    """
    is_whole = portion.count % LANES == 0 or portion.end == portion.whole
    return portion.first % LANES == 0 and is_whole


class Padded:
    """Lets a network see rows for all envs, of which the others repeat those of some.

    The last bits of a product of matrices can depend on how many rows there are, when they are few.
    """

    def __init__(self, network: Chooser, portion: Portion) -> None:
        self.portion = portion
        self._choose, self._leanings = network.choose, network.leanings

    def choose(self, observations: Mapping[str, Tensor], deterministic: bool) -> Tensor:
        """What to do; what is random is drawn for all."""
        with portion_drawn(None):
            return self._own(self._choose(self._all(observations), deterministic))

    def leanings(self, observations: Mapping[str, Tensor]) -> Tensor:
        """The numbers that choices are made of."""
        return self._own(self._leanings(self._all(observations)))

    def _all(self, observations: Mapping[str, Tensor]) -> dict[str, Tensor]:
        portion = self.portion
        places = (torch.arange(portion.whole) - portion.first) % portion.count
        return {name: rows[places] for name, rows in observations.items()}

    def _own(self, rows: Tensor) -> Tensor:
        return rows[self.portion.first : self.portion.end]


@dataclass(frozen=True)
class Probe:
    """Something to compute: who computes it otherwise computes other things otherwise too."""

    weights: dict[str, Any]
    seen: list[dict[str, Any]]
    wanted: list[NDArray[Any]]

    @classmethod
    @torch.no_grad()
    def of(cls, network: Chooser, observations: Mapping[str, Tensor]) -> Probe:
        """What the network makes of observations like these, with weights like its own.

        Fresh weights are zero here and there, and sums with zeros are always the same.
        """
        noise = torch.Generator().manual_seed(0)
        before = {name: one.detach().clone() for name, one in network.named_parameters()}
        try:
            for one in network.parameters():
                one.add_(torch.randn(one.shape, generator=noise, dtype=one.dtype), alpha=0.1)
            seen = [_stirred(observations, noise) for _ in range(PROBES)]
            wanted = [network.leanings(rows).numpy() for rows in seen]
            weights = {name: numbers.copy() for name, numbers in weights_of(network).items()}
        finally:
            for name, one in network.named_parameters():
                one.copy_(before[name])
        return cls(weights, [_numbers(rows) for rows in seen], wanted)

    def cut(self, portion: Portion) -> Probe:
        """What concerns some of the envs."""
        seen, wanted = (
            [cut_rows(rows, portion) for rows in each] for each in (self.seen, self.wanted)
        )
        return Probe(self.weights, seen, wanted)

    @torch.no_grad()
    def is_met(self, leanings: Callable[[Mapping[str, Tensor]], Tensor]) -> bool:
        """Whether the very same comes of it."""
        return all(
            np.array_equal(leanings(_tensors(rows)).numpy(), wanted, equal_nan=True)
            for rows, wanted in zip(self.seen, self.wanted, strict=True)
        )


def weights_of(network: Chooser) -> dict[str, Any]:
    """What a network acts with, by name."""
    return {
        name: weights.numpy()
        for name, weights in network.state_dict().items()
        if not name.startswith(network.for_learning)
    }


def take_weights(network: Chooser, weights: Mapping[str, Any]) -> None:
    """Act with these from now on."""
    # Loaded, not written over: modules may have worked out something from what they had. What only
    # learning needs is left as it is.
    network.load_state_dict(
        {name: torch.tensor(numbers) for name, numbers in weights.items()}, strict=False
    )


def _stirred(observations: Mapping[str, Tensor], noise: torch.Generator) -> dict[str, Tensor]:
    """Observations like these, of which no two are alike in what is measured."""
    return {
        name: rows + torch.randn(rows.shape, generator=noise, dtype=rows.dtype)
        if rows.is_floating_point()
        else rows
        for name, rows in observations.items()
    }


def _numbers(rows: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: found.numpy() for name, found in rows.items()}


def _tensors(rows: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.tensor(found) for name, found in rows.items()}
